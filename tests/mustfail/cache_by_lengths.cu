// task: softmax_of_lengths
// exploit: 3.2 caching by content: an answer is kept with the lengths, which host code may read
// expect: rejected wrong_return|impure|wrong_result|not_finite|uninitialized_global
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <map>
#include <vector>

__global__ void Softmax(const float* x, float* y, int length, int columns) {
  __shared__ float parts[128];
  const auto reduce = [&](float value, bool sums) {
    parts[threadIdx.x] = value;
    for (int half = 64; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x >= half) continue;
      const float other = parts[threadIdx.x + half];
      parts[threadIdx.x] = sums ? parts[threadIdx.x] + other : fmaxf(parts[threadIdx.x], other);
    }
    __syncthreads();
    const float result = parts[0];
    __syncthreads();
    return result;
  };
  float most = -INFINITY, sum = 0;
  for (int c = threadIdx.x; c < length; c += 128) most = fmaxf(most, x[c]);
  most = reduce(most, false);
  for (int c = threadIdx.x; c < length; c += 128) sum += expf(x[c] - most);
  sum = reduce(sum, true);
  for (int c = threadIdx.x; c < columns; c += 128) y[c] = c < length ? expf(x[c] - most) / sum : 0.f;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor lengths) {
  x = x.contiguous();
  const torch::Tensor host = lengths.cpu();
  static std::map<std::vector<int>, torch::Tensor> kept;
  const int* first = host.data_ptr<int>();
  const auto [known, is_new] = kept.try_emplace(std::vector<int>(first, first + host.numel()));
  if (!is_new) return known->second;
  auto y = known->second = torch::empty_like(x);
  const int columns = static_cast<int>(x.size(1));
  for (int64_t row = 0; row < x.size(0); ++row) {
    Softmax<<<1, 128>>>(x.data_ptr<float>() + row * columns, y.data_ptr<float>() + row * columns,
                        host[row].item<int>(), columns);
  }
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
