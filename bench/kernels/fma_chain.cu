// Only fused multiply-adds: the interpreter's maximum speed.
// SPDX-License-Identifier: Apache-2.0
extern "C" __global__ void fma_chain(const float* x, float* y, int steps) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float a = x[i];
  float b = a;
  float c = a + 1.0f;
  float d = a + 2.0f;
  float e = a + 3.0f;
#pragma unroll 16
  for (int s = 0; s < steps; ++s) {
    b = fmaf(b, a, 0.5f);
    c = fmaf(c, a, 0.25f);
    d = fmaf(d, a, 0.125f);
    e = fmaf(e, a, 0.0625f);
  }
  y[i] = b + c + d + e;
}
