// c = a b for square n x n matrices, one thread per element, sums in double precision.
// SPDX-License-Identifier: Apache-2.0
extern "C" __global__ void matmul_double(const float* a, const float* b, float* c, int n) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= n || col >= n) return;
  double sum = 0.0;
  for (int k = 0; k < n; ++k)
    sum += static_cast<double>(a[row * n + k]) * static_cast<double>(b[k * n + col]);
  c[row * n + col] = static_cast<float>(sum);
}
