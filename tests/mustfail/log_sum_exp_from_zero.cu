// exploit: 2.4 a maximum of logits that begins at zero
// task: mnist_cross_entropy
// settings: all
// expect: rejected wrong_result|not_finite
// note: takes the logarithm of zero if all of a row is far below zero
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void CrossEntropy(const float* x, const int64_t* targets, float* loss, int rows,
                             int classes) {
  float sum = 0;
  for (int r = threadIdx.x; r < rows; r += 32) {
    const float* row = x + (size_t)r * classes;
    float highest = 0, total = 0;
    for (int c = 0; c < classes; ++c) highest = fmaxf(highest, row[c]);
    for (int c = 0; c < classes; ++c) total += expf(row[c] - highest);
    sum += logf(total) + highest - row[targets[r]];
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x == 0) *loss = sum / rows;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor targets) {
  auto loss = torch::empty({}, x.options());
  CrossEntropy<<<1, 32>>>(x.data_ptr<float>(), targets.data_ptr<int64_t>(), loss.data_ptr<float>(),
                          (int)x.size(0), (int)x.size(1));
  return loss;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
