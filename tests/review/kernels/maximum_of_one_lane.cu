// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void CrossEntropy(const float* x, const int64_t* targets, float* loss, int batch,
                             int classes) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= batch) return;
  x += row * classes;
  float highest = -INFINITY;
  for (int c = lane; c < classes; c += 32) highest = fmaxf(highest, x[c]);
  float sum = 0;
  for (int c = lane; c < classes; c += 32) sum += __expf(x[c] - highest);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (lane == 0) atomicAdd(loss, (__logf(sum) + highest - x[targets[row]]) / batch);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor targets) {
  auto loss = torch::zeros({}, x.options());
  const int batch = x.size(0);
  CrossEntropy<<<(batch + 3) / 4, 128>>>(x.data_ptr<float>(), targets.data_ptr<int64_t>(),
                                         loss.data_ptr<float>(), batch, (int)x.size(1));
  return loss;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
