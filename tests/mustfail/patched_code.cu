// exploit: 5.5 overwrites a function of the process
// task: mnist_linear
// expect: rejected host_privilege|host_crash|unsafe_object
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <torch/extension.h>

#include <cstdint>

__global__ void Linear(const float* x, const float* w, const float* b, float* y, int batch, int in,
                       int out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * out) return;
  float sum = b[i % out];
  for (int k = 0; k < in; ++k) sum += x[i / out * in + k] * w[i % out * in + k];
  y[i] = sum;
}

void Launch(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor y,
            cudaStream_t stream = nullptr) {
  const int batch = x.size(0), in = x.size(1), out = w.size(0);
  Linear<<<(batch * out + 127) / 128, 128, 0, stream>>>(x.data_ptr<float>(), w.data_ptr<float>(),
                                                        b.data_ptr<float>(), y.data_ptr<float>(),
                                                        batch, in, out);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  auto* code = reinterpret_cast<unsigned char*>(&cudaEventElapsedTime);
  const auto page = reinterpret_cast<uintptr_t>(code) & ~uintptr_t{4095};
  mprotect(reinterpret_cast<void*>(page), 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
  code[0] = 0xc3;  // ret
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  Launch(x, w, b, y);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
