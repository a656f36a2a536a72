// Races between the blocks of a cluster. The last argument selects a bug, so that every wrong kernel
// has a correct twin (0). Some
// repeat their work for `rounds` rounds. cluster_races.ptx is what nvcc makes of them:
//   nvcc -ptx -arch=sm_90a -O3 -std=c++17 -lineinfo cluster_races.cu
// with the path in its .file directive cut to "cluster_races.cu". Lines at which a race is found are
// marked "BUG".
// SPDX-License-Identifier: Apache-2.0
#include <cooperative_groups.h>

#include <cstdint>

namespace cg = cooperative_groups;

namespace {

__device__ uint32_t Shared(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
__device__ uint32_t In(unsigned rank, const void* at) {
  uint32_t mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(Shared(at)), "r"(rank));
  return mapped;
}

__device__ void Init(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(Shared(barrier)), "r"(count)
               : "memory");
}
__device__ void PublishInits() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void Expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(Shared(barrier)),
               "r"(bytes)
               : "memory");
}
__device__ void ArriveAt(unsigned rank, uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(In(rank, barrier)) : "memory");
}
/// Releases to the own block only.
__device__ void ArriveNarrowlyAt(unsigned rank, uint64_t* barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" ::"r"(In(rank, barrier))
               : "memory");
}
__device__ void Wait(uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{.reg .pred p;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again;}" ::"r"(Shared(barrier)),
      "r"(parity)
      : "memory");
}
__device__ void StoreAsync(unsigned rank, int* to, int value, uint64_t* barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 "
      "[%0], %1, [%2];" ::"r"(In(rank, to)),
      "r"(value), "r"(In(rank, barrier))  // BUG halo 1, 2
      : "memory");
}
__device__ void ArriveRelaxed() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ void WaitForCluster() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

}  // namespace

extern "C" {

/// Bug 1: no barrier before a block reads what another one wrote.
__global__ void remote_read(int* out, int rounds, int bug) {
  __shared__ int own[64];
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  own[threadIdx.x] = static_cast<int>(64 * cluster.block_rank() + threadIdx.x);  // BUG remote_read 1
  if (bug == 1) {
    __syncthreads();
  } else {
    cluster.sync();
  }
  out[64 * blockIdx.x + threadIdx.x] = cluster.map_shared_rank(own, next)[63 - threadIdx.x];  // BUG remote_read 1
  cluster.sync();
}

/// Bug 1: no barrier before a block rewrites what another one still reads.
__global__ void rewrite(int* out, int rounds, int bug) {
  __shared__ int own[64];
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  int sum = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    own[threadIdx.x] = round;  // BUG rewrite 1
    cluster.sync();
    sum += cluster.map_shared_rank(own, next)[63 - threadIdx.x];
    if (bug == 0) cluster.sync();
  }
  cluster.sync();
  out[64 * blockIdx.x + threadIdx.x] = sum;
}

/// Bug 1: no barrier before a block rewrites what its owner still reads.
__global__ void remote_rewrite(int* out, int rounds, int bug) {
  __shared__ int own[64];
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  int sum = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    cluster.map_shared_rank(own, next)[threadIdx.x] = round;  // BUG remote_rewrite 1
    cluster.sync();
    sum += own[63 - threadIdx.x];  // BUG remote_rewrite 1
    if (bug == 0) cluster.sync();
  }
  cluster.sync();
  out[64 * blockIdx.x + threadIdx.x] = sum;
}

/// Bug 1: a relaxed arrival without a fence. Bug 2: with a fence for the own block. Bug 3: a read
/// before the wait.
__global__ void relaxed(int* out, int rounds, int bug) {
  __shared__ int own[64];
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  own[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (bug == 0) asm volatile("fence.acq_rel.cluster;" ::: "memory");
  if (bug == 2) asm volatile("fence.acq_rel.cta;" ::: "memory");
  if (bug == 3) {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    out[64 * blockIdx.x + threadIdx.x] = cluster.map_shared_rank(own, next)[threadIdx.x];  // BUG relaxed 3
  } else {
    ArriveRelaxed();
  }
  WaitForCluster();
  const int* from = cluster.map_shared_rank(own, next);
  if (bug != 3) out[64 * blockIdx.x + threadIdx.x] = from[threadIdx.x];  // BUG relaxed 1, 2
  cluster.sync();
}

/// A barrier in two parts, with work in between that touches only the own memory.
__global__ void split(int* out, int rounds, int bug) {
  __shared__ int own[2][64];
  __shared__ int work[64];
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  int sum = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    own[round % 2][threadIdx.x] = round + static_cast<int>(cluster.block_rank());
    cluster.barrier_arrive();
    work[threadIdx.x] = sum;
    __syncthreads();
    sum += work[63 - threadIdx.x] & 1;
    __syncthreads();
    cluster.barrier_wait();
    sum += cluster.map_shared_rank(own[round % 2], next)[63 - threadIdx.x];
  }
  cluster.sync();
  out[64 * blockIdx.x + threadIdx.x] = sum;
}

/// Block 0 writes to block 1 and sets a flag there. Bug 1: the flag's scope is the block. Bug 2: a
/// fence whose scope is the block.
__global__ void flag(int* out, int rounds, int bug) {
  __shared__ int value[64];
  __shared__ unsigned ready;
  const cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) ready = 0;
  cluster.sync();
  if (cluster.block_rank() == 0) {
    cluster.map_shared_rank(value, 1)[threadIdx.x] = 3;
    __syncthreads();
    if (threadIdx.x == 0) {
      const uint32_t at = In(1, &ready);
      if (bug == 1) {
        asm volatile("st.release.cta.shared::cluster.u32 [%0], 1;" ::"r"(at) : "memory");
      } else if (bug == 2) {
        asm volatile("fence.acq_rel.cta; st.relaxed.cluster.shared::cluster.u32 [%0], 1;" ::"r"(at)
                     : "memory");
      } else {
        asm volatile("st.release.cluster.shared::cluster.u32 [%0], 1;" ::"r"(at) : "memory");
      }
    }
  } else if (cluster.block_rank() == 1) {
    unsigned seen = 0;
    while (seen == 0) {
      if (bug == 1) {
        asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(seen) : "r"(Shared(&ready)) : "memory");
      } else {
        asm volatile("ld.acquire.cluster.shared.u32 %0, [%1];" : "=r"(seen) : "r"(Shared(&ready)) : "memory");
      }
    }
    out[64 * blockIdx.x + threadIdx.x] = value[threadIdx.x];  // BUG flag 1, 2
  }
  cluster.sync();
}

/// Block 0 fills a buffer of block 1, round after round. Bug 1: it announces that in the scope of
/// its block. Bug 2: block 1 releases the buffer in the scope of its block.
__global__ void produce(int* out, int rounds, int bug) {
  __shared__ int buffer[64];
  __shared__ uint64_t full, empty;
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank();
  if (threadIdx.x == 0) {
    Init(&full, 64);
    Init(&empty, 64);
    PublishInits();
  }
  cluster.sync();
  int sum = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    if (rank == 0) {
      Wait(&empty, round % 2 ^ 1);
      cluster.map_shared_rank(buffer, 1)[threadIdx.x] = round;  // BUG produce 2
      if (bug == 1) {
        ArriveNarrowlyAt(1, &full);
      } else {
        ArriveAt(1, &full);
      }
    } else if (rank == 1) {
      Wait(&full, round % 2);
      sum += buffer[63 - threadIdx.x];  // BUG produce 1
      if (bug == 2) {
        ArriveNarrowlyAt(0, &empty);
      } else {
        ArriveAt(0, &empty);
      }
    }
  }
  cluster.sync();
  if (rank == 1) out[64 * blockIdx.x + threadIdx.x] = sum;
}

__device__ int input[16 * 128];

/// Each block loads its part of a tile for all blocks, in a ring of two stages; warp 0 loads, and
/// warps 1 and 2 add up the tile. Bug 1: the loads wait only for the own block's readers.
__global__ void multicast(int* out, int rounds, int bug) {
  constexpr int kTile = 128, kStages = 2;
  __shared__ alignas(128) int tile[kStages][kTile];
  __shared__ uint64_t full[kStages], empty[kStages];
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank(), blocks = cluster.num_blocks();
  const int part = kTile / static_cast<int>(blocks);
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      Init(&full[s], 1);
      Init(&empty[s], bug == 1 ? 2 : 2 * static_cast<int>(blocks));
    }
    PublishInits();
  }
  ArriveRelaxed();
  WaitForCluster();
  int sum = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    const int s = round % kStages;
    const unsigned parity = round / kStages % 2;
    if (threadIdx.x == 0) {
      Wait(&empty[s], parity ^ 1);
      Expect(&full[s], 4 * kTile);
      const int at = static_cast<int>(rank) * part;
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
          ".multicast::cluster "
          "[%0], [%1], %2, [%3], %4;" ::"r"(Shared(&tile[s][at])),
          "l"(input + round * kTile + at), "r"(4 * part), "r"(Shared(&full[s])),
          "h"(static_cast<uint16_t>((1u << blocks) - 1))  // BUG multicast 1
          : "memory");
    } else if (threadIdx.x >= 32) {
      Wait(&full[s], parity);
      const int lane = static_cast<int>(threadIdx.x) - 32;
      sum += tile[s][lane] + tile[s][127 - lane];
      __syncwarp();
      if (threadIdx.x % 32 == 0) {
        if (bug == 1) {
          ArriveAt(rank, &empty[s]);
        } else {
          for (unsigned other = 0; other < blocks; ++other) ArriveAt(other, &empty[s]);
        }
      }
    }
  }
  if (threadIdx.x >= 32) out[64 * blockIdx.x + threadIdx.x - 32] = sum;
  cluster.sync();
}

/// Blocks send their edge to the next one, round after round. Bug 1: it is read before it arrived.
/// Bug 2: it is sent before the next block has read the last one.
__global__ void halo(int* out, int rounds, int bug) {
  __shared__ alignas(16) int edge[32];
  __shared__ uint64_t full, empty;
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank(), blocks = cluster.num_blocks();
  const unsigned next = (rank + 1) % blocks, last = (rank + blocks - 1) % blocks;
  if (threadIdx.x == 0) {
    Init(&full, 1);
    Init(&empty, 32);
    PublishInits();
  }
  cluster.sync();
  int value = static_cast<int>(32 * rank + threadIdx.x);
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x == 0) Expect(&full, 4 * 32);
    if (bug != 2) Wait(&empty, round % 2 ^ 1);
    StoreAsync(next, &edge[threadIdx.x], value, &full);
    if (bug == 1) value += edge[31 - threadIdx.x];
    Wait(&full, round % 2);
    value += edge[31 - threadIdx.x];
    ArriveAt(last, &empty);
  }
  cluster.sync();
  out[32 * blockIdx.x + threadIdx.x] = value;
}

/// Two blocks write to the same words of block 0. Bug 1: nothing orders them.
__global__ void two_writers(int* out, int rounds, int bug) {
  __shared__ int words[32];
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank();
  words[threadIdx.x] = 0;
  cluster.sync();
  if (rank == 1) cluster.map_shared_rank(words, 0)[threadIdx.x] = 7;  // BUG two_writers 1
  if (bug == 0) cluster.sync();
  if (rank == 2) cluster.map_shared_rank(words, 0)[31 - threadIdx.x] = 8;  // BUG two_writers 1
  cluster.sync();
  if (rank == 0) out[32 * blockIdx.x + threadIdx.x] = words[threadIdx.x];
}

/// All blocks add to block 0. Bug 1: before it has written zero. Bug 2: it reads too early.
__global__ void sums(int* out, int rounds, int bug) {
  __shared__ int total[2];
  const cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x < 2) total[threadIdx.x] = 0;  // BUG sums 1
  if (bug == 1) {
    __syncthreads();
  } else {
    cluster.sync();
  }
  atomicAdd(cluster.map_shared_rank(total, 0) + threadIdx.x % 2, 1);  // BUG sums 1, 2
  if (bug == 2) {
    __syncthreads();
  } else {
    cluster.sync();
  }
  if (cluster.block_rank() == 0 && threadIdx.x == 0) out[blockIdx.x] = total[0] + total[1];
  cluster.sync();
  // All blocks read the sums, also their own block, and then rewrite them.
  const int* of_first = cluster.map_shared_rank(total, 0);
  if (threadIdx.x == 0) out[gridDim.x + blockIdx.x] = of_first[0] + of_first[1] + total[0];
  cluster.sync();
  if (threadIdx.x < 2) total[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] += total[1];
  cluster.sync();
}

/// Reads memory of another block that nothing has written (bug 1).
__global__ void unwritten(int* out, int rounds, int bug) {
  __shared__ int words[2];
  const cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) words[0] = 1;
  cluster.sync();
  if (threadIdx.x == 0) {
    const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    out[blockIdx.x] = cluster.map_shared_rank(words, next)[bug];  // BUG unwritten 1
  }
  cluster.sync();
}

/// Blocks copy a tile to the next one. Bug 1: while that one still reads it. Bug 2: from a tile that
/// another block still writes.
__global__ void copies(int* out, int rounds, int bug) {
  __shared__ alignas(128) int from[64];
  __shared__ alignas(128) int to[64];
  __shared__ uint64_t full;
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank(), blocks = cluster.num_blocks();
  const unsigned next = (rank + 1) % blocks;
  if (threadIdx.x == 0) {
    Init(&full, 1);
    PublishInits();
  }
  cluster.sync();
  int sum = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    cluster.map_shared_rank(from, next)[threadIdx.x] = round + static_cast<int>(threadIdx.x);
    if (bug != 2) cluster.sync();
    if (threadIdx.x == 0) {
      Expect(&full, 4 * 64);
      asm volatile("fence.proxy.async;" ::: "memory");
      asm volatile(
          "cp.async.bulk.shared::cluster.shared::cta.mbarrier"
          "::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(In(next, to)),
          "r"(Shared(from)), "r"(In(next, &full))  // BUG copies 1, 2
          : "memory");
    }
    Wait(&full, round % 2);
    sum += to[63 - threadIdx.x];
    if (bug != 1) cluster.sync();
  }
  cluster.sync();
  out[64 * blockIdx.x + threadIdx.x] = sum;
}
}
