// y = relu(x W^T + b), one warp for each output element: rows x cols outputs, depth inputs.
// SPDX-License-Identifier: Apache-2.0
extern "C" __global__ void linear_relu(const float* __restrict__ x,
                                       const float* __restrict__ weight,
                                       const float* __restrict__ bias, float* __restrict__ y,
                                       int rows, int cols, int depth) {
  const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (warp >= rows * cols) return;
  const int row = warp / cols;
  const int col = warp % cols;
  float sum = 0.0f;
  for (int k = lane; k < depth; k += 32) sum += x[row * depth + k] * weight[col * depth + k];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (lane == 0) y[row * cols + col] = fmaxf(sum + bias[col], 0.0f);
}
