// variants: scalar vector_2 vector_4 runs_of_8 few_blocks in_double
// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

constexpr int kN = 1 << 22;
constexpr RankInput kInputs[] = {{kN, 0}, {kN, 0}};
constexpr int64_t kOutput = kN;

__device__ __forceinline__ float SiluMul(float a, float b) { return a / (1.0f + expf(-a)) * b; }

__global__ void Scalar(const float* a, const float* b, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = SiluMul(a[i], b[i]);
}
__global__ void Vector2(const float2* a, const float2* b, float2* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float2 p = a[i], q = b[i];
  y[i] = {SiluMul(p.x, q.x), SiluMul(p.y, q.y)};
}
__global__ void Vector4(const float4* a, const float4* b, float4* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 p = a[i], q = b[i];
  y[i] = {SiluMul(p.x, q.x), SiluMul(p.y, q.y), SiluMul(p.z, q.z), SiluMul(p.w, q.w)};
}
/// Each thread computes neighbouring elements, so lanes are 32 bytes apart.
__global__ void Runs(const float* a, const float* b, float* y) {
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
#pragma unroll 1
  for (int i = first; i < first + 8; ++i) y[i] = SiluMul(a[i], b[i]);
}
__global__ void GridStride(const float* a, const float* b, float* y) {
#pragma unroll 1
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < kN; i += gridDim.x * blockDim.x) {
    y[i] = SiluMul(a[i], b[i]);
  }
}
__global__ void InDouble(const float* a, const float* b, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const double p = a[i];
  y[i] = static_cast<float>(p / (1.0 + exp(-p)) * b[i]);
}

void Launch(const void* const* in, float* y, cudaStream_t stream) {
  const auto* a = static_cast<const float*>(in[0]);
  const auto* b = static_cast<const float*>(in[1]);
  if (RANK_VARIANT == 0) Scalar<<<kN / 256, 256, 0, stream>>>(a, b, y);
  if (RANK_VARIANT == 1) {
    Vector2<<<kN / 512, 256, 0, stream>>>(static_cast<const float2*>(in[0]),
                                          static_cast<const float2*>(in[1]),
                                          reinterpret_cast<float2*>(y));
  }
  if (RANK_VARIANT == 2) {
    Vector4<<<kN / 1024, 256, 0, stream>>>(static_cast<const float4*>(in[0]),
                                           static_cast<const float4*>(in[1]),
                                           reinterpret_cast<float4*>(y));
  }
  if (RANK_VARIANT == 3) Runs<<<kN / 2048, 256, 0, stream>>>(a, b, y);
  if (RANK_VARIANT == 4) GridStride<<<64, 256, 0, stream>>>(a, b, y);
  if (RANK_VARIANT == 5) InDouble<<<kN / 256, 256, 0, stream>>>(a, b, y);
}

RANK_TWO_INPUTS({kN})
