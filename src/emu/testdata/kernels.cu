// Kernels of the interpreter's tests; kernels.ptx is what nvcc makes of them:
//   nvcc -ptx -arch=sm_90 -O3 --use_fast_math -lineinfo kernels.cu
// SPDX-License-Identifier: Apache-2.0
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" {

/// y[row] = sum_k x[row][k] * w[k] + b: a warp for each row.
__global__ void warp_linear(const float* x, const float* w, float* y, float b, int rows, int n) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0;
  for (int k = lane; k < n; k += 32) sum += x[row * n + k] * w[k];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
  if (lane == 0) y[row] = sum + b;
}

__global__ void gemm_tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float ta[16][16], tb[16][16];
  const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n; t += 16) {
    ta[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
    tb[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += ta[threadIdx.y][k] * tb[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

/// The same without its second barrier, or with one too many lanes left out.
__global__ void gemm_racy(const float* a, const float* b, float* c, int n) {
  __shared__ float ta[16][16], tb[16][16];
  const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n; t += 16) {
    ta[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
    tb[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += ta[threadIdx.y][k] * tb[k][threadIdx.x];
  }
  c[row * n + col] = sum;
}

__global__ void silu_mul(const float4* a, const float4* b, float4* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float4 x = a[i], y = b[i];
  auto f = [](float u, float v) { return u / (1.0f + __expf(-u)) * v; };
  c[i] = make_float4(f(x.x, y.x), f(x.y, y.y), f(x.z, y.z), f(x.w, y.w));
}

/// Softmax of rows of n, a block each; dynamic shared memory holds one float for each warp.
__global__ void softmax_rows(const float* x, float* y, int n) {
  extern __shared__ float part[];
  const float* row = x + blockIdx.x * n;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  float most = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x) most = fmaxf(most, row[i]);
  for (int d = 16; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
  if (lane == 0) part[warp] = most;
  __syncthreads();
  for (int i = 0; i < warps; ++i) most = fmaxf(most, part[i]);
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(row[i] - most);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (lane == 0) part[warp] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < warps; ++i) sum += part[i];
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    y[blockIdx.x * n + i] = expf(row[i] - most) / sum;
  }
}

/// Nested loops with breaks, continues and early exits that depend on the thread.
__global__ void divergent(const int* x, int* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int sum = 0;
  for (int a = 0; a < (i & 7) + 1; ++a) {
    if (((x[i] >> a) & 3) == 1) continue;
    for (int b = a; b < 50; b += (i % 3) + 1) {
      if (((x[i] ^ b) & 31) == 7) break;
      sum += b * (a + 1);
      if (sum > 4000) {
        y[i] = -sum;
        return;
      }
    }
    switch ((x[i] + a) % 5) {
      case 0: sum += 3; break;
      case 1: sum ^= 0x55; break;
      case 2: sum *= 3; break;
      case 3: sum -= i; break;
      default: sum = ~sum;
    }
  }
  y[i] = sum;
}

__global__ void histogram(const int* x, unsigned* bins, float* total, int n) {
  __shared__ unsigned mine[16];
  if (threadIdx.x < 16) mine[threadIdx.x] = 0;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    atomicAdd(&mine[x[i] & 15], 1u);
    atomicAdd(total, (float)(x[i] & 15));
  }
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

/// An array that is indexed at run time lives in local memory.
__global__ void local_array(const int* x, int* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int a[16];
#pragma unroll 1
  for (int k = 0; k < 16; ++k) a[k] = x[i] * (k + 1);
#pragma unroll 1
  for (int k = 0; k < 32; ++k) a[(x[i] + k * 5) & 15] += a[(k * 7 + i) & 15];
  int sum = 0;
#pragma unroll 1
  for (int k = 0; k < 16; ++k) sum = sum * 31 + a[k];
  y[i] = sum;
}

/// Reads lanes that do not take part: a full mask inside `lane < 8`.
__global__ void bad_shuffle(const float* x, float* y) {
  float v = x[threadIdx.x];
  if (threadIdx.x < 8) {
    for (int d = 8; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    if (threadIdx.x == 0) y[blockIdx.x] = v;
  }
  __syncthreads();
}
/// The mask leaves out lanes that execute the shuffle all the same, converged with the others.
__global__ void excluded_shuffle(const float* x, float* y) {
  float v = threadIdx.x < 10 ? x[threadIdx.x] : 0.f;
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0x3ffu, v, d);
  if (threadIdx.x == 0) y[blockIdx.x] = v;
}
__global__ void good_shuffle(const float* x, float* y) {
  float v = x[threadIdx.x];
  if (threadIdx.x < 8) {
    for (int d = 4; d > 0; d /= 2) v += __shfl_down_sync(0xffu, v, d);
    if (threadIdx.x == 0) y[blockIdx.x] = v;
  }
  __syncthreads();
}

/// Lanes of one warp wait for each other through a lock.
__global__ void spin_lock(int* lock, int* counter) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *(volatile int*)counter = *(volatile int*)counter + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

/// Each block waits for the one before it.
__global__ void wait_for_next(volatile int* flags, int* y) {
  if (threadIdx.x == 0) {
    flags[blockIdx.x] = 1;
    while (flags[(blockIdx.x + 1) % gridDim.x] == 0) {
    }
  }
  __syncthreads();
  y[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x;
}

__global__ void barrier_in_branch(float* y) {
  if (threadIdx.x % 2 == 0) {
    y[threadIdx.x] = 1;
    __syncthreads();
  } else {
    y[threadIdx.x] = 2;
    __syncthreads();
    y[threadIdx.x] += 1;
  }
}

__global__ void endless(int* y) {
  volatile int* p = y;
  while (p[0] == 0) {
  }
}

__global__ void halves(const __half2* a, const __half2* b, __half2* c, const __nv_bfloat16* p,
                       __nv_bfloat16* q, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  c[i] = __hfma2(a[i], b[i], __hadd2(a[i], __hmul2(b[i], b[i])));
  q[i] = __hfma(p[i], p[i], p[i] + __float2bfloat16(0.5f));
}

__constant__ float table[64];
__device__ float offset_of_all = 2.5f;
__global__ void symbols(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * table[i & 63] + table[3] + offset_of_all;
}

__noinline__ __device__ float helper(float a, float* out) {
  *out = a * 2;
  return a > 0 ? sqrtf(a) : -a;
}
__global__ void calls(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float twice;
  const float r = helper(x[i], &twice);
  y[i] = r + helper(twice, &twice) + twice;
}

__global__ void warp_votes(const int* x, unsigned* y) {
  const int v = x[threadIdx.x];
  unsigned r = __ballot_sync(~0u, v & 1);
  r += __popc(__match_any_sync(~0u, v & 3));
  r ^= __reduce_add_sync(~0u, v);
  r += __any_sync(~0u, v == 5) + 2 * __all_sync(~0u, v < 100);
  if (v & 2) r += __popc(__activemask());
  r += __syncthreads_count(v & 1);
  y[threadIdx.x] = r + __brev(v) + __clz(v) + __byte_perm(v, r, 0x3041);
}

/// Lanes hand values to their neighbours through shared memory.
__global__ void warp_exchange(const int* x, int* y) {
  __shared__ int t[64];
  t[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  y[threadIdx.x] = t[threadIdx.x ^ 1];
}
__global__ void warp_exchange_racy(const int* x, int* y) {
  __shared__ volatile int t[64];
  t[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = t[threadIdx.x ^ 1];
}
__global__ void reads_unwritten(const int* x, int* y) {
  __shared__ int t[64];
  if (threadIdx.x < 63) t[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = t[threadIdx.x ^ 1];
}

__global__ void grid_sums(int* x, int* y) {
  if (threadIdx.x == 0) x[blockIdx.x] = blockIdx.x + 1;
  cooperative_groups::this_grid().sync();
  int sum = 0;
  for (int i = 0; i < gridDim.x; ++i) sum += x[i];
  y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

}  // extern "C"
