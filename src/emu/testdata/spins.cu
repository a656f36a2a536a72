// Kernels that wait for each other, and the same with a mistake that makes them wait for ever, for
// stall_test.cc. spins.ptx is made of this file:
//   nvcc -ptx -arch=sm_90 -O3 -std=c++17 -lineinfo spins.cu
// with the path in its .file directive cut to "spins.cu". Lines at which a kernel waits are marked
// "WAITS", for whom the mistake is a template argument.
// SPDX-License-Identifier: Apache-2.0
#pragma nv_diag_suppress static_var_with_dynamic_init  // init() is called
#include <cooperative_groups.h>
#include <cuda/barrier>

namespace cg = cooperative_groups;

/// A barrier of all blocks, as kernels write it themselves: a counter that only grows.
template <bool Forgets>
__device__ void grid_barrier(unsigned* count, unsigned round) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    if (!Forgets || blockIdx.x != 1) atomicAdd(count, 1);
    while (*(volatile unsigned*)count < round * gridDim.x) {  // WAITS grid_barrier
    }
    __threadfence();
  }
  __syncthreads();
}
template <bool Forgets>
__device__ void grid_sums(unsigned* count, int* parts, int* out) {
  for (unsigned round = 1; round <= 3; ++round) {
    if (threadIdx.x == 0) parts[blockIdx.x] = blockIdx.x + round;
    grid_barrier<Forgets>(count, 2 * round - 1);
    if (threadIdx.x == 0) {
      int sum = 0;
      for (unsigned i = 0; i < gridDim.x; ++i) sum += parts[i];
      out[blockIdx.x] = sum;
    }
    grid_barrier<Forgets>(count, 2 * round);
  }
}
extern "C" __global__ void grid_barrier_good(unsigned* count, int* parts, int* out) {
  grid_sums<false>(count, parts, out);
}
extern "C" __global__ void grid_barrier_bad(unsigned* count, int* parts, int* out) {
  grid_sums<true>(count, parts, out);
}

/// The barrier of cooperative groups; a block that leaves early is missed.
extern "C" __global__ void grid_sync(int* parts, int* out, int leaver) {
  parts[blockIdx.x] = blockIdx.x;
  if (blockIdx.x == leaver) return;
  cg::this_grid().sync();
  out[blockIdx.x] = parts[(blockIdx.x + 1) % gridDim.x];
}

/// A scan that looks back: each block waits for what the one before it has published.
template <bool Forgets>
__device__ void look_back(volatile int* sums, volatile int* flags, const int* in, int* out) {
  if (threadIdx.x == 0) {
    int before = 0;
    if (blockIdx.x > 0) {
      while (flags[blockIdx.x - 1] == 0) {  // WAITS look_back
      }
      __threadfence();
      before = sums[blockIdx.x - 1];
    }
    sums[blockIdx.x] = before + in[blockIdx.x];
    __threadfence();
    if (!Forgets || blockIdx.x != 2) flags[blockIdx.x] = 1;
    out[blockIdx.x] = before + in[blockIdx.x];
  }
}
extern "C" __global__ void look_back_good(int* sums, int* flags, const int* in, int* out) {
  look_back<false>(sums, flags, in, out);
}
extern "C" __global__ void look_back_bad(int* sums, int* flags, const int* in, int* out) {
  look_back<true>(sums, flags, in, out);
}

extern "C" __global__ void look_back_atomic(int* sums, const int* in, int* out) {
  if (threadIdx.x != 0) return;
  int before = 0;
  if (blockIdx.x > 0) {
    while ((before = atomicAdd(&sums[blockIdx.x - 1], 0)) == 0) {
    }
  }
  out[blockIdx.x] = before + in[blockIdx.x];
  atomicExch(&sums[blockIdx.x], before + in[blockIdx.x]);
}

/// A lock of tickets, and one of compare-and-swap with a pause that grows.
template <bool Keeps>
__device__ void ticket_lock(unsigned* next, volatile unsigned* serving, int* total, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    if (threadIdx.x == 0) {
      const unsigned mine = atomicAdd(next, 1);
      while (*serving != mine) {  // WAITS ticket_lock
      }
      __threadfence();
      *total += 1;
      __threadfence();
      if (!Keeps || i + 1 < rounds) *serving = mine + 1;
    }
    __syncthreads();
  }
}
extern "C" __global__ void ticket_lock_good(unsigned* next, unsigned* serving, int* total, int n) {
  ticket_lock<false>(next, serving, total, n);
}
extern "C" __global__ void ticket_lock_bad(unsigned* next, unsigned* serving, int* total, int n) {
  ticket_lock<true>(next, serving, total, n);
}
template <bool Keeps>
__device__ void swap_lock(int* lock, int* total) {
  if (threadIdx.x % 32 == 0) {
    unsigned pause = 8;
    while (atomicCAS(lock, 0, 1) != 0) {  // WAITS swap_lock
      __nanosleep(pause);
      if (pause < 256) pause *= 2;
    }
    __threadfence();
    *total += 1;
    __threadfence();
    if (!Keeps) atomicExch(lock, 0);
  }
}
extern "C" __global__ void swap_lock_good(int* lock, int* total) { swap_lock<false>(lock, total); }
extern "C" __global__ void swap_lock_bad(int* lock, int* total) { swap_lock<true>(lock, total); }

/// The block that comes last adds up what all have written.
extern "C" __global__ void last_block(unsigned* count, int* parts, int* out) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = blockIdx.x;
    __threadfence();
    is_last = atomicAdd(count, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    __threadfence();
    int sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += ((volatile int*)parts)[i];
    *out = sum;
  }
}

/// Warp 0 produces `made` items, warp 1 consumes `wanted`, through a flag in shared memory.
extern "C" __global__ void pipe(int* out, int made, int wanted) {
  __shared__ volatile int full;
  __shared__ volatile int item;
  if (threadIdx.x == 0) full = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < made; ++i) {
      while (full != 0) {
      }
      item = i;
      __threadfence_block();
      full = 1;
    }
  } else if (threadIdx.x == 32) {
    int sum = 0;
    for (int i = 0; i < wanted; ++i) {
      while (full == 0) {  // WAITS pipe
      }
      __threadfence_block();
      sum += item;
      full = 0;
    }
    *out = sum;
  }
}

/// An mbarrier, waited for by parity.
extern "C" __global__ void parity(int* out, int wrong) {
  __shared__ alignas(8) unsigned long long bar;
  const unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(blockDim.x));
  __syncthreads();
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");
  int done = 0;
  while (!done) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(at), "r"(wrong)  // WAITS parity
        : "memory");
  }
  out[threadIdx.x] = 1;
}

/// Gives up after `tries`, or after `cycles` of the clock.
extern "C" __global__ void bounded(volatile int* flag, int* out, int tries) {
  int i = 0;
  for (; i < tries; ++i) {
    if (*flag != 0) break;  // WAITS bounded
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = i;
}
extern "C" __global__ void timed(volatile int* flag, int* out, long long cycles) {
  const long long start = clock64();
  while (*flag == 0) {  // WAITS timed
    if (clock64() - start > cycles) break;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = *flag;
}

/// Reads that need not see what others write.
extern "C" __global__ void plain(const int* flag, int* out) {
  while (*flag == -1) {  // WAITS plain
    asm volatile("" ::: "memory");
  }
  out[blockIdx.x] = 1;
}

/// Waits for a flag: how often it looked does not matter to how long it waits.
extern "C" __global__ void counted(volatile int* flag, int* out) {
  int tries = 0;
  while (*flag == 0) ++tries;  // WAITS counted
  out[blockIdx.x * blockDim.x + threadIdx.x] = tries;
}
extern "C" __global__ void relaxed(volatile int* flag, int* out) {
  while (*flag == 0) {  // WAITS relaxed
    const long long start = clock64();
    while (clock64() - start < 500) {
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

/// All threads look together, and decide together.
extern "C" __global__ void together(volatile int* flag, int* out) {
  for (;;) {
    const int seen = threadIdx.x == 0 ? *flag : 0;  // WAITS together
    if (__syncthreads_or(seen)) break;
  }
  out[threadIdx.x] = 1;
}
extern "C" __global__ void voted(volatile int* flag, int* out) {
  while (!__any_sync(~0u, threadIdx.x % 32 == 5 && *flag != 0)) {  // WAITS voted
  }
  out[threadIdx.x] = 1;
}

/// Warp 0 meets warp 1 at barriers until warp 1, which comes there in its own loop, sets a flag.
extern "C" __global__ void escorted(volatile int* flag, int* out, int steps) {
  const auto meet = [] { asm volatile("bar.sync 1, 64;" ::: "memory"); };
  if (threadIdx.x < 32) {
    for (int seen = 0; seen == 0;) {
      meet();
      seen = *flag;
      meet();
    }
  } else {
    for (int i = 0; i < steps; ++i) {
      meet();
      meet();
    }
    *flag = 1;
    meet();
    meet();
  }
  out[threadIdx.x] = 1;
}

/// Some lanes of a warp wait for another of the same warp.
extern "C" __global__ void lanes(int* out, int sets) {
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x % 2 == 0) {
    while (flag == 0) {  // WAITS lanes
    }
  } else if (threadIdx.x == 5 && sets) {
    flag = 1;
  }
  out[threadIdx.x] = 1;
}

/// Long and honest: `n` steps on what is read once, or again and again.
extern "C" __global__ void long_sum(const float* x, float* out, int n) {
  float sum = x[threadIdx.x];
  for (int i = 0; i < n; ++i) sum = sum * 0.99f + 1.0f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void long_walk(const volatile int* next, int* out, int n) {
  int at = threadIdx.x;
  for (int i = 0; i < n; ++i) at = next[at];
  out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}
extern "C" __global__ void long_chase(const volatile int* next, int* out) {
  int at = 0;
  while (next[at] != 0) at = next[at];
  *out = at;
}
/// Asks at every step whether to stop.
extern "C" __global__ void long_work(const volatile int* stop, int* out, int n) {
  int x = threadIdx.x;
  for (int i = 0; i < n && *stop == 0; ++i) x = x * 1664525 + 1013904223;
  out[threadIdx.x] = x;
}
/// One block works for long while the others wait for it.
extern "C" __global__ void patient(volatile int* flag, int* out, int n) {
  if (blockIdx.x == 0) {
    int x = n;
    for (int i = 0; i < n; ++i) x = x * 1664525 + 1013904223;
    if (threadIdx.x == 0) {
      out[0] = x;
      __threadfence();
      *flag = 1;
    }
  } else if (threadIdx.x == 0) {
    while (*flag == 0) {
    }
    __threadfence();
    out[blockIdx.x] = ((volatile int*)out)[0];
  }
}

/// Without an end, and without anything to wait for.
extern "C" __global__ void endless(int* out, int step) {
  unsigned x = threadIdx.x;
  for (int i = 0; i < 10; i += step) {
    asm volatile("" : "+r"(x));  // WAITS endless
    x += 1;
  }
  out[threadIdx.x] = x;
}

/// Waits again and again, each time not for long, and stores in between.
extern "C" __global__ void rounds(volatile int* flag, volatile int* out, int rounds, int tries) {
  for (int r = 0; r < rounds; ++r) {
    for (int i = 0; i < tries; ++i) {
      if (*flag != 0) break;
    }
    out[threadIdx.x] = r;
  }
}

/// One warp works for long; the others wait for its phase of an mbarrier.
extern "C" __global__ void specialised(float* out, int n) {
  __shared__ alignas(8) unsigned long long barrier;
  __shared__ float value;
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at));
  __syncthreads();
  if (threadIdx.x < 32) {
    float s = 1;
#pragma unroll 1
    for (int i = 0; i < n; ++i) s = s * 0.99f + 1.0f;
    if (threadIdx.x == 0) {
      value = s;
      asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");
    }
    return;
  }
  for (int done = 0; done == 0;) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(at)
        : "memory");
  }
  out[threadIdx.x] = value;
}

/// Reads through the L2 alone see what others write, though nothing calls them volatile.
extern "C" __global__ void through_l2(int* flag, int* out, int n) {
  if (blockIdx.x == 0) {
    int x = n;
#pragma unroll 1
    for (int i = 0; i < n; ++i) x = x * 1664525 + 1013904223;
    if (threadIdx.x == 0) {
      out[0] = x;
      __threadfence();
      *reinterpret_cast<volatile int*>(flag) = 1;
    }
  } else if (threadIdx.x == 0) {
    int seen = 0;
    do {
      asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    } while (seen == 0);
    out[blockIdx.x] = seen;
  }
}
