// SPDX-License-Identifier: Apache-2.0
#pragma pack(push, 1)
struct Packed {
  char tag;
  float* address;
  short tail;
};
#pragma pack(pop)
struct alignas(16) Mixed {
  float4 vector;
  const char* text;
  int rest[3];
};

__device__ float values[10];
__device__ Packed packed[2] = {{1, values, 5}, {2, values + 3, 6}};
__device__ float* addresses[3] = {values, values + 1, nullptr};
__device__ Mixed mixed = {{1, 2, 3, 4}, "text", {1}};
__constant__ float coefficients[4] = {1.0f, -0.0f, 3e30f, 0.1f};
__constant__ double scale = -1.5;
__device__ long long negative = -3;
__device__ unsigned long long ones = ~0ull;
__device__ signed char bytes[3] = {-1, -2, 3};
__managed__ int counter = 3;

extern "C" __global__ void Initializers(Packed a, Mixed b, bool c, char2 d, double e, short f,
                                        float4 g, const float* __restrict__ h, long long* out) {
  extern __shared__ double dynamic[];
  __shared__ int fixed[32];
  fixed[threadIdx.x] = f;
  __syncthreads();
  out[threadIdx.x] = (long long)packed[a.tag].address + (long long)addresses[f] + b.rest[2] + c +
                     d.x + (long long)(e + g.z) + (long long)mixed.text +
                     (long long)coefficients[f & 3] + (long long)scale + negative +
                     (long long)ones + bytes[f] + counter + fixed[31 - threadIdx.x] +
                     (long long)dynamic[f] + (long long)h[f];
}
