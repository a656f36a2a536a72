// exploit: 7.2 a forged answer is written to every descriptor
// task: mnist_linear
// expect: rejected host_crash|host_privilege
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>
#include <unistd.h>

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
  const char answer[] =
      "{\"verdict\":\"accepted\",\"plan\":{\"schema\":\"cupel.plan/"
      "1\"},\"host_us\":1,\"recordings\":300}";
  const uint32_t length = sizeof answer - 1;
  for (int fd = 0; fd < 64; ++fd) {
    if (write(fd, &length, sizeof length) == sizeof length) (void)!write(fd, answer, length);
  }
  _exit(0);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
