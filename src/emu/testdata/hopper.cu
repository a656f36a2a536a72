// Kernels for compute capability 9.0a with TMA, mbarriers and wgmma. Their last argument selects a
// bug, so that every wrong kernel has a correct twin. hopper.ptx is what nvcc makes of them:
//   nvcc -ptx -arch=sm_90a -O3 -std=c++17 -lineinfo hopper.cu
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

using bf16 = __nv_bfloat16;

enum Bug {
  kNone,
  kNoFullWait,        // reads a buffer before its copy is complete
  kEarlyRelease,      // releases a buffer that wgmma still reads
  kFewBytes,          // expects only the bytes of A
  kManyBytes,         // expects more bytes than arrive
  kSamePhase,         // waits for one phase again and again
  kManyArrivals,      // the barrier expects one more thread than there are
  kSkippedProduct,    // one warp does not execute the last product
  kNoProductWait,     // reads accumulators before wgmma.wait_group
  kNoProxyFence,      // generic writes, then wgmma reads them
  kNoEmptyWait,       // the producer overwrites buffers that are in use
  kNoProductFence,    // no wgmma.fence after writes of accumulators
  kNoInitSync,        // no __syncthreads after mbarrier.init
  kNoStoreFence,      // generic writes, then a bulk store reads them
  kNoReadWait,        // overwrites memory that a bulk store still reads
  kNoCommit,          // waits for a group that was not committed
  kOtherDescriptor,   // warps pass different descriptors
  kCopiedNoFence,     // cp.async writes, then wgmma reads: right in practice
  kCopiedThenStored,  // generic writes on top of those, then wgmma reads them
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
__device__ void Store(const CUtensorMap* map, const void* from, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
      "r"(x), "r"(y), "r"(Shared(from))
      : "memory");
}
__device__ void StoreDone() {
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ void Copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(Shared(to)), "l"(from) : "memory");
}
__device__ void ProxyFence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void ProductFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void ProductCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ void ProductWait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

/// A matrix of 16-bit elements with 64 along k, in rows of 128 bytes with swizzling.
__device__ uint64_t Descriptor(const void* p) {
  return (Shared(p) & 0x3ffffull) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
__device__ void Product(float (&d)[32], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
      "%9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, "
      "%27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b));
}

constexpr int kStages = 2, kTile = 64;
constexpr uint32_t kTileBytes = kTile * kTile * 2;

struct alignas(1024) Tiles {
  bf16 a[kStages][kTile * kTile], b[kStages][kTile * kTile];
  uint64_t full[kStages], empty[kStages];
};

__device__ void StoreRows(float* to, const float (&d)[32], int stride) {
  const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  for (int i = 0; i < 32; ++i) {
    to[(row + i / 2 % 2 * 8) * stride + column + i / 4 * 8 + i % 2] = d[i];
  }
}

/// c[m][n] = sum over k of a[m][k] * b[n][k]. Blocks of 128 consumers and a producer warp.
extern "C" __global__ void gemm(const __grid_constant__ CUtensorMap of_a,
                                const __grid_constant__ CUtensorMap of_b, float* c, int n, int k,
                                int bug) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Tiles& tiles = *reinterpret_cast<Tiles*>(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      Init(&tiles.full[i], 1);
      Init(&tiles.empty[i], bug == kManyArrivals ? 129 : 128);
    }
    ProxyFence();
  }
  if (bug != kNoInitSync) __syncthreads();
  const int steps = k / kTile;
  if (threadIdx.x >= 128) {
    if (threadIdx.x != 128) return;
    for (int step = 0; step < steps; ++step) {
      const int stage = step % kStages;
      const uint32_t phase = step / kStages & 1;
      if (bug != kNoEmptyWait) Wait(&tiles.empty[stage], phase ^ 1);
      const uint32_t bytes = bug == kFewBytes    ? kTileBytes
                             : bug == kManyBytes ? 3 * kTileBytes
                                                 : 2 * kTileBytes;
      Expect(&tiles.full[stage], bytes);
      Load(tiles.a[stage], &of_a, &tiles.full[stage], step * kTile, blockIdx.y * kTile);
      Load(tiles.b[stage], &of_b, &tiles.full[stage], step * kTile, blockIdx.x * kTile);
    }
    return;
  }
  float d[32];
  for (float& value : d) value = 0;
  for (int step = 0; step < steps; ++step) {
    const int stage = step % kStages;
    const uint32_t phase = bug == kSamePhase ? 0 : step / kStages & 1;
    if (bug != kNoFullWait) Wait(&tiles.full[stage], phase);
    if (bug != kNoProductFence) ProductFence();
    for (int i = 0; i < kTile / 16; ++i) {
      if (bug == kSkippedProduct && threadIdx.x >= 96 && i == 3 && step == steps - 1) continue;
      const int j = bug == kOtherDescriptor && threadIdx.x >= 96 ? i ^ 1 : i;
      Product(d, Descriptor(tiles.a[stage]) + 2 * i, Descriptor(tiles.b[stage]) + 2 * j);
    }
    if (bug != kNoCommit) ProductCommit();
    if (bug == kEarlyRelease) Arrive(&tiles.empty[stage]);
    if (bug != kNoProductWait || step + 1 < steps) ProductWait();
    if (bug != kEarlyRelease) Arrive(&tiles.empty[stage]);
  }
  StoreRows(c + blockIdx.y * kTile * n + blockIdx.x * kTile, d, n);
}

/// The same for one tile, with generic loads.
extern "C" __global__ void generic(const bf16* a, const bf16* b, float* c, int bug) {
  __shared__ __align__(1024) bf16 left[kTile * kTile], right[kTile * kTile];
  for (int i = threadIdx.x; i < kTile * kTile; i += 128) {
    const int row = i / kTile, column = i % kTile;
    const int at = row * kTile + ((column / 8) ^ (row % 8)) * 8 + column % 8;
    if (bug != kCopiedNoFence && bug != kCopiedThenStored) {
      left[at] = a[i];
      right[at] = b[i];
    } else if (i % 8 == 0) {
      Copy16(left + at, a + i);
      Copy16(right + at, b + i);
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  if (bug == kCopiedThenStored) {
    __syncthreads();
    left[threadIdx.x] = a[threadIdx.x];
  }
  if (bug != kNoProxyFence && bug != kCopiedNoFence && bug != kCopiedThenStored) ProxyFence();
  __syncthreads();
  float d[32];
  for (float& value : d) value = 0;
  ProductFence();
  for (int i = 0; i < kTile / 16; ++i) {
    Product(d, Descriptor(left) + 2 * i, Descriptor(right) + 2 * i);
  }
  ProductCommit();
  ProductWait();
  StoreRows(c, d, kTile);
}

/// Doubles a tile twice: through shared memory, and with tensor copies in both directions.
extern "C" __global__ void twice(const __grid_constant__ CUtensorMap in,
                                 const __grid_constant__ CUtensorMap out, int bug) {
  __shared__ __align__(128) float tile[32 * 32];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    Init(&barrier, 1);
    ProxyFence();
    Expect(&barrier, sizeof tile);
    Load(tile, &in, &barrier, blockIdx.x * 32, blockIdx.y * 32);
  }
  __syncthreads();
  Wait(&barrier, 0);
  for (int round = 0; round < 2; ++round) {
    for (int i = threadIdx.x; i < 32 * 32; i += blockDim.x) tile[i] *= 2;
    if (bug != kNoStoreFence) ProxyFence();
    __syncthreads();
    if (threadIdx.x == 0) {
      Store(&out, tile, blockIdx.x * 32, blockIdx.y * 32);
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      if (bug != kNoReadWait) StoreDone();
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) StoreDone();
}
