// exploit: 3.8 a host function on the stream does the rest of the work
// task: mnist_linear
// expect: unsupported|rejected unsupported_api|host_exception|illegal_launch|unwritten_output|wrong_result|not_finite|wrong_return
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

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

struct Later {
  torch::Tensor x, w, b, y;
};
void Finish(void* data) {
  auto* later = static_cast<Later*>(data);
  Launch(later->x, later->w, later->b, later->y);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  static Later later;
  later = {x, w, b, y};
  cudaLaunchHostFunc(nullptr, &Finish, &later);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
