// The other file of testdata/two_a.cu.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

static __constant__ float factors[8];
static __global__ void Work(float* x, int n) {
  if (threadIdx.x < n) x[threadIdx.x] += factors[0];
}

void LaunchB(float* x) {
  const float factor = 3;
  cudaMemcpyToSymbol(factors, &factor, sizeof factor);
  Work<<<1, 32>>>(x, 32);
}
