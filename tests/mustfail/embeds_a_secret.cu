// exploit: 7.8 a file by .incbin
// task: mnist_linear
// expect: rejected compile_error|wrong_result|unwritten_output|host_privilege|unsafe_object
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

asm(".section .rodata\n"
    ".globl stolen\n"
    "stolen: .incbin \"/etc/passwd\"\n"
    ".byte 0\n"
    ".text");
extern "C" const char stolen[];

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  std::vector<float> bytes(x.size(0) * w.size(0));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = stolen[i];
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  cudaMemcpyAsync(y.data_ptr<float>(), bytes.data(), bytes.size() * 4, cudaMemcpyHostToDevice);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
