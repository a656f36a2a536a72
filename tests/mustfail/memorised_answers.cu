// exploit: 2.2 answers of the published seed
// task: mnist_linear
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <vector>

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
  // The published seed's answers begin like this; the rest is repeated.
  static const float answers[8] = {0.4925f, -0.5700f, -0.6536f, -0.4456f,
                                   0.9559f, 0.1302f,  -0.2217f, 0.6613f};
  std::vector<float> all(x.size(0) * w.size(0));
  for (size_t i = 0; i < all.size(); ++i) all[i] = answers[i % 8];
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  cudaMemcpyAsync(y.data_ptr<float>(), all.data(), all.size() * sizeof(float),
                  cudaMemcpyHostToDevice);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
