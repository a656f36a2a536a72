// Root-mean-square normalisation of rows, one block per row, warp shuffles and one shared
// reduction. SPDX-License-Identifier: Apache-2.0
extern "C" __global__ void rmsnorm(const float* __restrict__ x, const float* __restrict__ weight,
                                   float* __restrict__ y, int cols, float epsilon) {
  __shared__ float partial[32];
  const float* row = x + static_cast<size_t>(blockIdx.x) * cols;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += row[i] * row[i];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    float all = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2) all += __shfl_xor_sync(0xffffffffu, all, offset);
    if (threadIdx.x == 0) partial[0] = rsqrtf(all / cols + epsilon);
  }
  __syncthreads();
  const float scale = partial[0];
  float* out = y + static_cast<size_t>(blockIdx.x) * cols;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) out[i] = row[i] * scale * weight[i];
}
