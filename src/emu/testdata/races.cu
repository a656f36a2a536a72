// Kernels with and without each kind of race, for race_test.cc. races.ptx is made of this file:
//   nvcc -ptx -arch=sm_90 -O3 -std=c++17 -lineinfo races.cu
// with the path in its .file directive cut to "races.cu". A bug's line is marked "BUG".
// SPDX-License-Identifier: Apache-2.0
#include <cooperative_groups.h>
#include <cuda_fp16.h>

namespace cg = cooperative_groups;

// --- shared memory -----------------------------------------------------------------------------

template <bool Bug>
__device__ void neighbour(const int* x, int* y) {
  __shared__ int t[64];
  t[threadIdx.x] = x[threadIdx.x];
  if (!Bug) __syncthreads();
  y[threadIdx.x] = t[(threadIdx.x + 32) % 64];  // BUG neighbour
}
extern "C" __global__ void neighbour_good(const int* x, int* y) { neighbour<false>(x, y); }
extern "C" __global__ void neighbour_bad(const int* x, int* y) { neighbour<true>(x, y); }

template <bool Bug>
__device__ void tile_loop(const int* x, int* y, int n) {
  __shared__ int t[64];
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    t[threadIdx.x] = x[i * 64 + threadIdx.x];  // BUG tile_loop
    __syncthreads();
    for (int k = 0; k < 64; k += 7) sum += t[(threadIdx.x + k) % 64];
    if (!Bug) __syncthreads();
  }
  y[threadIdx.x] = sum;
}
extern "C" __global__ void tile_loop_good(const int* x, int* y, int n) {
  tile_loop<false>(x, y, n);
}
extern "C" __global__ void tile_loop_bad(const int* x, int* y, int n) { tile_loop<true>(x, y, n); }

// A warp that synchronises within itself reads later than the others by its own clock, and writes
// behind the barrier what all have read.
template <bool Bug>
__device__ void busy_warp(int* y, int n) {
  __shared__ int word;
  int sum = 0;
  if (threadIdx.x == 0) word = n;
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    if (threadIdx.x < 32) {
      for (int k = 1; k < 32; k *= 2) sum += __shfl_xor_sync(~0u, sum, k);
    }
    sum += word;  // BUG busy_warp
    if (!Bug) __syncthreads();
    if (threadIdx.x == 0) word = sum;
    __syncthreads();
  }
  y[threadIdx.x] = sum;
}
extern "C" __global__ void busy_warp_good(int* y, int n) { busy_warp<false>(y, n); }
extern "C" __global__ void busy_warp_bad(int* y, int n) { busy_warp<true>(y, n); }

template <bool Bug>
__device__ void warp_exchange(const int* x, int* y) {
  __shared__ int t[64];
  t[threadIdx.x] = x[threadIdx.x];
  if (!Bug) __syncwarp();
  y[threadIdx.x] = t[threadIdx.x ^ 1];  // BUG warp_exchange
}
extern "C" __global__ void warp_exchange_good(const int* x, int* y) { warp_exchange<false>(x, y); }
extern "C" __global__ void warp_exchange_bad(const int* x, int* y) { warp_exchange<true>(x, y); }

// Reads broadcast words, then overwrites them after a shuffle: ordered within the warp.
template <bool Bug>
__device__ void warp_reuse(const int* x, int* y) {
  __shared__ int t[32];
  t[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  int sum = t[threadIdx.x / 2] + t[31 - threadIdx.x / 4];
  if (!Bug) sum += __shfl_xor_sync(~0u, sum, 1);
  t[threadIdx.x] = sum;  // BUG warp_reuse
  __syncwarp();
  y[threadIdx.x] = t[31 - threadIdx.x];
}
extern "C" __global__ void warp_reuse_good(const int* x, int* y) { warp_reuse<false>(x, y); }
extern "C" __global__ void warp_reuse_bad(const int* x, int* y) { warp_reuse<true>(x, y); }

// The reduction of old textbooks: works while warps run in lockstep.
extern "C" __global__ void volatile_reduction(const int* x, int* y) {
  __shared__ volatile int t[64];
  const unsigned i = threadIdx.x;
  t[i] = x[i];
  t[i + 32] = x[i + 32];
  for (int step = 32; step > 0; step /= 2) t[i] = t[i] + t[i + step];  // BUG volatile_reduction
  if (i == 0) y[0] = t[0];
}

// Warp 0 fills, warp 1 reads, and they meet at barriers 1 and 2 only; warp 2 is elsewhere.
template <bool Bug>
__device__ void producer(const int* x, int* y, int n) {
  __shared__ int t[32];
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 2) return;
  for (int i = 0; i < n; ++i) {
    if (warp == 0) {
      if (!Bug || i == 0) asm volatile("bar.sync 2, 64;" ::: "memory");
      t[lane] = x[i * 32 + lane];
      asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
      if (!Bug || i == 0) asm volatile("bar.arrive 2, 64;" ::: "memory");
      asm volatile("bar.sync 1, 64;" ::: "memory");
      y[i * 32 + lane] = t[31 - lane];  // BUG producer
    }
  }
}
extern "C" __global__ void producer_good(const int* x, int* y, int n) { producer<false>(x, y, n); }
extern "C" __global__ void producer_bad(const int* x, int* y, int n) { producer<true>(x, y, n); }

extern "C" __global__ void halves(const __half* x, __half* y) {
  __shared__ __half t[64];
  t[threadIdx.x] = x[threadIdx.x];
  t[threadIdx.x] = __hadd(t[threadIdx.x], t[threadIdx.x]);
  y[threadIdx.x] = t[threadIdx.x];
}

template <bool Bug>
__device__ void count(const int* x, int* y) {
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, x[threadIdx.x]);
  if (!Bug) __syncthreads();
  if (threadIdx.x == 0) y[0] = total;  // BUG count
}
extern "C" __global__ void count_good(const int* x, int* y) { count<false>(x, y); }
extern "C" __global__ void count_bad(const int* x, int* y) { count<true>(x, y); }

template <bool Bug>
__device__ void flagged(const int* x, int* y) {
  __shared__ int data;
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 32) {
    data = x[0];
    if (!Bug) __threadfence_block();
    flag = 1;
  }
  if (threadIdx.x == 0) {
    while (flag == 0) {
    }
    __threadfence_block();
    y[0] = data;  // BUG flagged
  }
}
extern "C" __global__ void flagged_good(const int* x, int* y) { flagged<false>(x, y); }
extern "C" __global__ void flagged_bad(const int* x, int* y) { flagged<true>(x, y); }

extern "C" __global__ void same_value(const int* x, int* y) {
  __shared__ int found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  if (x[threadIdx.x] >= 0) found = 1;  // BUG same_value
  __syncthreads();
  y[threadIdx.x] = found;
}
extern "C" __global__ void conflicting_lanes(const int* x, int* y) {
  __shared__ int last;
  last = x[threadIdx.x];  // BUG conflicting_lanes
  __syncwarp();
  y[threadIdx.x] = last;
}

// --- global memory -----------------------------------------------------------------------------

extern "C" __global__ void everyone_writes(const int* x, int* y) {
  y[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];  // BUG everyone_writes
}
extern "C" __global__ void overlapping(const int* x, int* y) {
  y[blockIdx.x * (blockDim.x - 1) + threadIdx.x] = x[threadIdx.x];  // BUG overlapping
}
extern "C" __global__ void own_halves(const __half* x, __half* y) {
  const int i = blockIdx.x + threadIdx.x * gridDim.x;
  y[i] = x[i];
  y[i] = __hadd(y[i], y[i]);
}
extern "C" __global__ void reads_neighbour_block(int* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int n = gridDim.x * blockDim.x;
  x[i] = x[(i + blockDim.x) % n] + 1;  // BUG reads_neighbour_block
}

template <bool Bug>
__device__ void scratch(const int* x, int* s, int* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[i] = x[i];
  if (!Bug) __syncthreads();
  y[i] = s[blockIdx.x * blockDim.x + (threadIdx.x + 32) % blockDim.x];  // BUG scratch
}
extern "C" __global__ void scratch_good(const int* x, int* s, int* y) { scratch<false>(x, s, y); }
extern "C" __global__ void scratch_bad(const int* x, int* s, int* y) { scratch<true>(x, s, y); }

// The last block to come adds up what all blocks wrote. CUDA's sample threadFenceReduction has no fence
// after the ticket.
template <bool Bug, bool Acquires = true>
__device__ void last_block(const int* x, int* partial, unsigned* counter, int* y) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    int sum = 0;
    for (unsigned i = 0; i < blockDim.x; ++i) sum += x[blockIdx.x * blockDim.x + i];
    partial[blockIdx.x] = sum;
    if (!Bug) __threadfence();
    last = atomicAdd(counter, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  if (Acquires) __threadfence();
  if (threadIdx.x < gridDim.x) {
    atomicAdd(y, partial[threadIdx.x]);  // BUG last_block
  }
}
extern "C" __global__ void last_block_good(const int* x, int* partial, unsigned* counter, int* y) {
  last_block<false>(x, partial, counter, y);
}
extern "C" __global__ void last_block_bad(const int* x, int* partial, unsigned* counter, int* y) {
  last_block<true>(x, partial, counter, y);
}
extern "C" __global__ void last_block_sample(const int* x, int* partial, unsigned* counter, int* y) {
  last_block<false, false>(x, partial, counter, y);
}

// Each block adds to the same number.
template <bool Bug>
__device__ void add_all(const int* x, int* y) {
  const int v = x[blockIdx.x * blockDim.x + threadIdx.x];
  if (Bug) {
    atomicAdd_block(y, v);  // BUG add_all
  } else {
    atomicAdd(y, v);
  }
}
extern "C" __global__ void add_all_good(const int* x, int* y) { add_all<false>(x, y); }
extern "C" __global__ void add_all_bad(const int* x, int* y) { add_all<true>(x, y); }
// Each block has a number of its own.
extern "C" __global__ void add_own_good(const int* x, int* y) {
  atomicAdd_block(y + blockIdx.x, x[blockIdx.x * blockDim.x + threadIdx.x]);
}

// A flag says that the data are there. With Acquires, the load of the flag acquires.
template <bool Acquires>
__device__ void pass_on(const int* x, int* data, int* flag, int* y) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("st.release.gpu.s32 [%0], 1;" ::"l"(flag) : "memory");
    return;
  }
  if (threadIdx.x == 0) {
    int ready = 0;
    while (ready == 0) {
      if (Acquires) {
        asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(ready) : "l"(flag) : "memory");
      } else {
        asm volatile("ld.relaxed.gpu.s32 %0, [%1];" : "=r"(ready) : "l"(flag) : "memory");
      }
    }
  }
  __syncthreads();
  y[threadIdx.x] = data[threadIdx.x];
}
extern "C" __global__ void pass_on_good(const int* x, int* data, int* flag, int* y) {
  pass_on<true>(x, data, flag, y);
}
extern "C" __global__ void pass_on_relaxed(const int* x, int* data, int* flag, int* y) {
  pass_on<false>(x, data, flag, y);
}

// The data are volatile, too. With Fences, they are there when the flag is.
template <bool Fences>
__device__ void pass_volatile(const int* x, volatile int* data, volatile int* flag, int* y) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = x[threadIdx.x];
    if (Fences) __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *flag = 1;
    return;
  }
  if (threadIdx.x == 0) {
    while (*flag == 0) {
    }
    if (Fences) __threadfence();
  }
  __syncthreads();
  y[threadIdx.x] = 2 * data[threadIdx.x];  // BUG pass_volatile
}
extern "C" __global__ void pass_volatile_good(const int* x, int* data, int* flag, int* y) {
  pass_volatile<true>(x, data, flag, y);
}
extern "C" __global__ void pass_volatile_bad(const int* x, int* data, int* flag, int* y) {
  pass_volatile<false>(x, data, flag, y);
}
// Each number tells itself whether it is there.
extern "C" __global__ void pass_marked_good(const int* x, int* data, int* flag, int* y) {
  volatile int* const marked = data + threadIdx.x;
  if (blockIdx.x == 0) {
    *marked = x[threadIdx.x] + 1;
    return;
  }
  int value = 0;
  while (value == 0) value = *marked;
  y[threadIdx.x] = value - 1;
}

template <bool Bug>
__device__ void grid_exchange(const int* x, int* s, int* y) {
  const int n = gridDim.x * blockDim.x;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int round = 0; round < 3; ++round) {
    s[i] = x[i] + round;  // BUG grid_exchange
    if (!Bug || round == 0) cg::this_grid().sync();
    y[i] = s[(i + blockDim.x) % n];
    cg::this_grid().sync();
  }
}
extern "C" __global__ void grid_exchange_good(const int* x, int* s, int* y) {
  grid_exchange<false>(x, s, y);
}
extern "C" __global__ void grid_exchange_bad(const int* x, int* s, int* y) {
  grid_exchange<true>(x, s, y);
}

extern "C" __global__ void reads_unwritten(int* s, int* y) {
  if (threadIdx.x != 5) s[threadIdx.x] = 1;
  y[threadIdx.x] = s[threadIdx.x];  // BUG reads_unwritten
}
extern "C" __global__ void stale(const int* __restrict__ x, int* s) {
  const unsigned i = threadIdx.x;
  s[i] = 7;
  __syncthreads();
  s[i + 64] = __ldg(x + (63 - i));  // BUG stale
}
extern "C" __global__ void add_one(int* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = x[i] + 1;
}
extern "C" __global__ void histogram(const int* x, int* counts) {
  atomicAdd(&counts[x[blockIdx.x * blockDim.x + threadIdx.x] & 3], 1);
}

// A mailbox in shared memory: who took what was in it marks it as empty.
extern "C" __global__ void mailbox(const int* x, int* y) {
  __shared__ int data;
  __shared__ volatile int full;
  if (threadIdx.x == 0) full = 0;
  __syncthreads();
  if (threadIdx.x == 32) {
    data = x[0];
    __threadfence_block();
    full = 1;
  }
  if (threadIdx.x == 0) {
    while (full == 0) {
    }
    __threadfence_block();
    y[0] = data;
    *const_cast<int*>(&full) = 0;
  }
}

// Warps that meet in one barrier from two places.
extern "C" __global__ void two_barriers(const int* x, int* y) {
  __shared__ int t[64];
  t[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x < 32) {
    __syncthreads();
    y[threadIdx.x] = t[threadIdx.x + 32];
  } else {
    asm volatile("bar.sync 0;" ::: "memory");  // BUG two_barriers
    y[threadIdx.x] = t[threadIdx.x - 32] + 1;
  }
}

// Every thread fences what it wrote; after the barrier one of them notifies other blocks.
template <bool Fences>
__device__ void fenced_by_all(const int* x, int* parts, unsigned* count, int* y) {
  __shared__ bool last;
  parts[blockIdx.x * blockDim.x + threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  if (Fences) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(count, 1) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  int sum = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) sum += parts[b * blockDim.x + threadIdx.x];  // BUG fenced_by_all
  y[threadIdx.x] = sum;
}
extern "C" __global__ void fenced_by_all_good(const int* x, int* parts, unsigned* count, int* y) {
  fenced_by_all<true>(x, parts, count, y);
}
extern "C" __global__ void fenced_by_all_bad(const int* x, int* parts, unsigned* count, int* y) {
  fenced_by_all<false>(x, parts, count, y);
}
