// Kernels for compute capability 10.0a with tcgen05 and tensor memory. Their last argument selects
// a bug, so that every wrong kernel has a correct twin. blackwell.ptx is what nvcc makes of
// them:
//   nvcc -ptx -arch=sm_100a -O3 -std=c++17 -lineinfo blackwell.cu
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

using bf16 = __nv_bfloat16;

enum Bug {
  kNone,
  kNoCommitWait,       // reads D before the products are complete
  kNoFence,            // no tcgen05.fence::after_thread_sync before tcgen05.ld
  kEarlyRelease,       // releases a buffer that a product still reads
  kNoProxyFence,       // generic writes, then a product reads them
  kNoFree,             // does not free its tensor memory
  kFreeTooEarly,       // frees tensor memory that other warps still read
  kTooFewColumns,      // D needs more columns than are allocated
  kOtherQuarter,       // a warp reads the lanes of another one
  kAlwaysAccumulates,  // the first product adds to what nothing has written
  kNoStoreWait,        // a product reads A before tcgen05.wait::st
  kNoLoadWait,         // overwrites D before tcgen05.wait::ld
  kAllocatesTwice,     // waits for tensor memory forever
  kNoVersion,          // the matrix descriptors lack bit 46
  kBadShape,           // N is no multiple of 16
  kOtherThread,        // the commit comes from a thread that issued nothing
  kFreesOther,         // frees other columns than it has allocated
  kLateAllocation,     // allocates after tcgen05.relinquish_alloc_permit
};

__device__ uint32_t Shared(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ void Init(uint64_t* barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(Shared(barrier)), "r"(count));
}
__device__ void Expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(Shared(barrier)),
               "r"(bytes)
               : "memory");
}
__device__ void Arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(Shared(barrier)) : "memory");
}
__device__ void Wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra "
      "W;\n}\n" ::"r"(Shared(barrier)),
      "r"(parity)
      : "memory");
}
__device__ void Load(void* to, const CUtensorMap* map, uint64_t* barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3}], [%4];" ::"r"(Shared(to)),
      "l"(map), "r"(x), "r"(y), "r"(Shared(barrier))
      : "memory");
}
__device__ void FenceProxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ void Allocate(uint32_t* to, uint32_t columns) {
  asm volatile(
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(Shared(to)),
      "r"(columns)
      : "memory");
}
__device__ void Relinquish() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
}
__device__ void Free(uint32_t address, uint32_t columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address),
               "r"(columns));
}
__device__ void FenceBefore() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void FenceAfter() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
__device__ void WaitLoads() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
__device__ void WaitStores() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }
__device__ void Commit(uint64_t* barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                   Shared(barrier))
               : "memory");
}
__device__ void Multiply(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction,
                         bool accumulates) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}\n" ::"r"(d),
      "l"(a), "l"(b), "r"(instruction), "r"(static_cast<int>(accumulates))
      : "memory");
}
__device__ void MultiplyTensor(uint32_t d, uint32_t a, uint64_t b, uint32_t instruction) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %3, %3;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}\n" ::"r"(d),
      "r"(a), "l"(b), "r"(instruction)
      : "memory");
}
/// A matrix with swizzled rows of 128 bytes.
__device__ uint64_t Descriptor(const void* p, bool has_version = true) {
  return (Shared(p) & 0x3ffff) >> 4 | uint64_t{1024 >> 4} << 32 | uint64_t{has_version} << 46 |
         uint64_t{2} << 61;
}
/// D is float32, A and B are bfloat16.
__device__ constexpr uint32_t Instruction(uint32_t m, uint32_t n) {
  return 1u << 4 | 1u << 7 | 1u << 10 | (n >> 3) << 17 | (m >> 4) << 24;
}
__device__ void LoadTensor(uint32_t address, float* to) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]), "=f"(to[4]), "=f"(to[5]),
                 "=f"(to[6]), "=f"(to[7])
               : "r"(address));
}
__device__ void StoreTensor(uint32_t address, const uint32_t* from) {
  asm volatile(
      "tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"r"(
          address),
      "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]), "r"(from[4]), "r"(from[5]),
      "r"(from[6]), "r"(from[7])
      : "memory");
}

constexpr int kM = 128, kN = 64, kK = 64, kStages = 2;

struct Tiles {
  bf16 a[kStages][kM * kK];
  bf16 b[kStages][kN * kK];
  uint64_t full[kStages], empty[kStages], done, drained;
  uint32_t address;
};

// c[128][n] = a[128][k] * b[n][k]: one warp copies, one multiplies, and four store the result. Each
// block computes `tiles` tiles of 64 columns, one after the other.
extern "C" __global__ void gemm(const __grid_constant__ CUtensorMap a,
                                const __grid_constant__ CUtensorMap b, float* c, int n, int k,
                                int tiles, int bug) {
  extern __shared__ char memory[];
  auto& shared = *reinterpret_cast<Tiles*>((reinterpret_cast<uint64_t>(memory) + 1023) & ~1023ull);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      Init(&shared.full[s], 1);
      Init(&shared.empty[s], 1);
    }
    Init(&shared.done, 1);
    Init(&shared.drained, 128);
    FenceProxy();
  }
  const uint32_t columns = bug == kTooFewColumns ? 32 : 64;
  if (warp == 0) {
    Allocate(&shared.address, columns);
    if (bug == kAllocatesTwice) Allocate(&shared.address, 512);
    Relinquish();
    if (bug == kLateAllocation) Allocate(&shared.address, 64);
  }
  FenceBefore();
  __syncthreads();
  FenceAfter();
  const uint32_t d = shared.address;
  const int steps = k / kK;
  if (warp == 4) {
    for (int i = 0; i < steps * tiles && lane == 0; ++i) {
      const int s = i % kStages;
      if (i >= kStages) Wait(&shared.empty[s], (i / kStages - 1) & 1);
      Expect(&shared.full[s], (kM + kN) * kK * sizeof(bf16));
      Load(shared.a[s], &a, &shared.full[s], i % steps * kK, 0);
      Load(shared.b[s], &b, &shared.full[s], i % steps * kK, (blockIdx.x * tiles + i / steps) * kN);
    }
  }
  if (warp == 5 && lane < 2) {
    for (int i = 0; i < steps * tiles && lane == 0; ++i) {
      const int s = i % kStages;
      if (i % steps == 0 && i != 0) {
        Wait(&shared.drained, (i / steps - 1) & 1);
        FenceAfter();
      }
      Wait(&shared.full[s], i / kStages & 1);
      for (int step = 0; step < kK / 16; ++step) {
        Multiply(d, Descriptor(shared.a[s], bug != kNoVersion) + 2 * step,
                 Descriptor(shared.b[s]) + 2 * step, Instruction(kM, bug == kBadShape ? 56 : kN),
                 bug == kAlwaysAccumulates || i % steps + step != 0);
      }
      if (bug == kEarlyRelease) {
        Arrive(&shared.empty[s]);
      } else {
        Commit(&shared.empty[s]);
      }
      if (i % steps == steps - 1 && bug != kOtherThread) Commit(&shared.done);
    }
    if (bug == kOtherThread && lane == 1) Commit(&shared.done);
  }
  if (warp < 4) {
    for (int tile = 0; tile < tiles; ++tile) {
      if (bug != kNoCommitWait) Wait(&shared.done, tile & 1);
      if (bug != kNoFence) FenceAfter();
      float values[8];
      for (int column = 0; column < kN; column += 8) {
        LoadTensor(d + ((bug == kOtherQuarter ? 0 : warp) << 21) + column, values);
        if (bug != kNoLoadWait) WaitLoads();
        const int row = warp * 32 + lane;
        for (int i = 0; i < 8; ++i) {
          c[row * n + (blockIdx.x * tiles + tile) * kN + column + i] = values[i];
        }
      }
      FenceBefore();
      Arrive(&shared.drained);
    }
  }
  if (bug != kFreeTooEarly) __syncthreads();
  if (warp == 0 && bug != kNoFree) Free(d, bug == kFreesOther ? 32 : columns);
}

// d = p * b, with p in tensor memory, as in the second product of attention: 128x16 times 16x64.
extern "C" __global__ void weights(const bf16* p, const bf16* b, float* c, int bug) {
  __shared__ alignas(1024) bf16 of_b[64 * 64];
  __shared__ uint64_t done;
  __shared__ uint32_t address;
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) Init(&done, 1);
  if (warp == 0) Allocate(&address, 128);
  for (int i = threadIdx.x; i < 64 * 64; i += 128) of_b[i] = bf16(0.0f);
  __syncthreads();
  // Rows of 128 bytes, whose pieces of 16 bytes are exchanged.
  for (int i = threadIdx.x; i < 64 * 16; i += 128) {
    const int row = i / 16, column = i % 16;
    of_b[row * 64 + ((column / 8) ^ row % 8) * 8 + column % 8] = b[i];
  }
  if (bug != kNoProxyFence) FenceProxy();
  __syncthreads();
  const uint32_t d = address, left = d + 64, row = threadIdx.x;
  uint32_t words[8];
  for (int i = 0; i < 8; ++i) words[i] = reinterpret_cast<const uint32_t*>(p)[row * 8 + i];
  StoreTensor(left + (warp << 21), words);
  if (bug != kNoStoreWait) WaitStores();
  FenceBefore();
  __syncthreads();
  if (threadIdx.x == 0) {
    FenceAfter();
    MultiplyTensor(d, left, Descriptor(of_b), Instruction(128, 64));
    Commit(&done);
  }
  Wait(&done, 0);
  FenceAfter();
  for (int column = 0; column < 64; column += 8) {
    float values[8];
    LoadTensor(d + (warp << 21) + column, values);
    WaitLoads();
    for (int i = 0; i < 8; ++i) c[row * 64 + column + i] = values[i];
  }
  FenceBefore();
  __syncthreads();
  if (warp == 0) {
    Free(d, 128);
    Relinquish();
  }
}

struct PairTiles {
  bf16 a[kStages][kM * kK];
  bf16 b[kStages][kN * kK];
  uint64_t full[kStages], empty[kStages], done;
  uint32_t address;
};

// c[256][64] = a[256][k] * b[64][k] by a cluster of two blocks. Each block copies its own half of
// A, and half of B to both blocks. A buffer is free when the products of both blocks are complete.
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    pair(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c,
         int k, int bug) {
  extern __shared__ char memory[];
  auto& shared =
      *reinterpret_cast<PairTiles*>((reinterpret_cast<uint64_t>(memory) + 1023) & ~1023ull);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rank = blockIdx.x;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      Init(&shared.full[s], 1);
      Init(&shared.empty[s], bug == kEarlyRelease ? 1 : 2);
    }
    Init(&shared.done, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (warp == 0) Allocate(&shared.address, 64);
  FenceBefore();
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  FenceAfter();
  const uint32_t d = shared.address;
  const int steps = k / kK;
  if (warp == 4 && lane == 0) {
    for (int i = 0; i < steps; ++i) {
      const int s = i % kStages;
      if (i >= kStages) Wait(&shared.empty[s], (i / kStages - 1) & 1);
      Expect(&shared.full[s], (kM + kN) * kK * sizeof(bf16));
      Load(shared.a[s], &a, &shared.full[s], i * kK, rank * kM);
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
          ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(
              Shared(shared.b[s] + rank * kN / 2 * kK)),
          "l"(&b), "r"(i * kK), "r"(rank * kN / 2), "r"(Shared(&shared.full[s])),
          "h"(static_cast<short>(3))
          : "memory");
    }
  }
  if (warp == 5 && lane == 0) {
    for (int i = 0; i < steps; ++i) {
      const int s = i % kStages;
      Wait(&shared.full[s], i / kStages & 1);
      for (int step = 0; step < kK / 16; ++step) {
        Multiply(d, Descriptor(shared.a[s]) + 2 * step, Descriptor(shared.b[s]) + 2 * step,
                 Instruction(kM, kN), i + step != 0);
      }
      if (bug == kEarlyRelease) {
        Commit(&shared.empty[s]);
      } else {
        asm volatile(
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster"
            ".multicast::cluster.b64 [%0], %1;" ::"r"(Shared(&shared.empty[s])),
            "h"(static_cast<short>(3))
            : "memory");
      }
    }
    Commit(&shared.done);
  }
  __syncwarp();
  if (warp < 4) {
    Wait(&shared.done, 0);
    FenceAfter();
    for (int column = 0; column < kN; column += 8) {
      float values[8];
      LoadTensor(d + (warp << 21) + column, values);
      WaitLoads();
      for (int i = 0; i < 8; ++i) {
        c[(rank * kM + warp * 32 + lane) * kN + column + i] = values[i];
      }
    }
    FenceBefore();
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  if (warp == 0) {
    Free(d, 64);
    Relinquish();
  }
}
