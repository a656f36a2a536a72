// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Backward(const float* g, const float* x, const int64_t* targets, float* gx,
                         int batch, int classes) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= batch) return;
  x += row * classes;
  gx += row * classes;
  float highest = x[0];
  for (int c = 1; c < classes; ++c) highest = fmaxf(highest, x[c]);
  float sum = 0;
  for (int c = 0; c < classes; ++c) sum += expf(x[c] - highest);
  const float scale = *g;
  for (int c = 0; c < classes; ++c) {
    gx[c] = (expf(x[c] - highest) / sum - (targets[row] == c ? 1.f : 0.f)) * scale;
  }
}

torch::Tensor backward(torch::Tensor g, torch::Tensor x, torch::Tensor targets) {
  auto gx = torch::empty_like(x);
  const int batch = x.size(0);
  Backward<<<(batch + 31) / 32, 32>>>(g.data_ptr<float>(), x.data_ptr<float>(),
                                      targets.data_ptr<int64_t>(), gx.data_ptr<float>(), batch,
                                      (int)x.size(1));
  return gx;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
