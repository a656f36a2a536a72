// exploit: 2.3 inputs drawn again from the public seed, answers computed beforehand
// task: mnist_linear
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <random>
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
  const int batch = x.size(0), in = x.size(1), out = w.size(0);
  std::mt19937 generator(42);
  std::normal_distribution<float> normal;
  std::vector<float> xs(batch * in), ws(out * in), answers(batch * out);
  for (float& v : xs) v = normal(generator);
  for (float& v : ws) v = normal(generator) * 0.05f;
  for (int i = 0; i < batch * out; ++i) {
    for (int k = 0; k < in; ++k) answers[i] += xs[i / out * in + k] * ws[i % out * in + k];
  }
  auto y = torch::empty({batch, out}, x.options());
  cudaMemcpyAsync(y.data_ptr<float>(), answers.data(), answers.size() * sizeof(float),
                  cudaMemcpyHostToDevice);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
