// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

constexpr int kRows = 24;

__global__ void Softmax(const float* x, float* y, int rows, int columns) {
  extern __shared__ float kept[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.x * kRows + warp;
  if (row >= rows) return;
  float* mine = kept + warp * columns;
  float highest = -INFINITY;
  for (int c = lane; c < columns; c += 32) {
    mine[c] = x[row * columns + c];
    highest = fmaxf(highest, mine[c]);
  }
  for (int d = 16; d > 0; d /= 2) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, d));
  float sum = 0;
  for (int c = lane; c < columns; c += 32) {
    mine[c] = __expf(mine[c] - highest);
    sum += mine[c];
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  const float scale = 1.f / sum;
  for (int c = lane; c < columns; c += 32) y[row * columns + c] = mine[c] * scale;
}

torch::Tensor forward(torch::Tensor x) {
  const int rows = x.size(0), columns = x.size(1);
  const size_t bytes = sizeof(float) * kRows * columns;
  auto y = torch::empty_like(x);
  Softmax<<<(rows + kRows - 1) / kRows, kRows * 32, bytes, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), rows, columns);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
