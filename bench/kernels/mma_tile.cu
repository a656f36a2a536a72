// Products of fragments in registers: the speed of mma.sync.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

extern "C" __global__ void mma_tile(const float* x, float* y, int steps) {
  const auto* bits = reinterpret_cast<const uint32_t*>(x);
  uint32_t a[4], b[2];
  for (int i = 0; i < 4; ++i) a[i] = bits[threadIdx.x + 32 * i];
  for (int i = 0; i < 2; ++i) b[i] = bits[threadIdx.x + 32 * i + 7];
  float d[8][4] = {};
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
          "{%8, %9}, {%0, %1, %2, %3};\n"
          : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
  }
  float sum = 0;
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 4; ++j) sum += d[i][j];
  }
  y[blockIdx.x * 256 + threadIdx.x] = sum;
}
