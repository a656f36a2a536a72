// Kernels with thread block clusters; clusters.ptx is what nvcc makes of them:
//   nvcc -ptx -arch=sm_90 -O3 -std=c++17 -lineinfo clusters.cu
// with the path in its .file directive cut to "clusters.cu". Lines at which a kernel waits are marked
// "WAITS".
// SPDX-License-Identifier: Apache-2.0
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

extern "C" {

/// 18 values for each block: its ids and the sizes that it sees.
__global__ void ids(int* out) {
  const cg::cluster_group cluster = cg::this_cluster();
  const dim3 index = cluster.block_index(), dim = cluster.dim_blocks();
  unsigned cx, cy, cz, nx, ny, nz, is_explicit;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(cx));
  asm("mov.u32 %0, %%clusterid.y;" : "=r"(cy));
  asm("mov.u32 %0, %%clusterid.z;" : "=r"(cz));
  asm("mov.u32 %0, %%nclusterid.x;" : "=r"(nx));
  asm("mov.u32 %0, %%nclusterid.y;" : "=r"(ny));
  asm("mov.u32 %0, %%nclusterid.z;" : "=r"(nz));
  asm("{.reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p;}"
      : "=r"(is_explicit));
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned values[18] = {blockIdx.x, blockIdx.y, blockIdx.z, cluster.block_rank(), index.x,
                               index.y,    index.z,    dim.x,      dim.y,                dim.z,
                               cx,         cy,         cz,         nx,                   ny,
                               nz,         cluster.num_blocks(),   is_explicit};
  if (threadIdx.x == 0) {
    for (int i = 0; i < 18; ++i) out[block * 18 + i] = static_cast<int>(values[i]);
  }
}

/// Each block counts values of its part of `in`; the bins are spread over the blocks of the cluster.
__global__ void histogram(const int* in, int count, int* bins, int bins_of_block) {
  extern __shared__ int own[];
  const cg::cluster_group cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < bins_of_block; i += blockDim.x) own[i] = 0;
  cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const int bin = in[i];
    int* part = cluster.map_shared_rank(own, bin / bins_of_block);
    atomicAdd(part + bin % bins_of_block, 1);
  }
  cluster.sync();
  for (int i = threadIdx.x; i < bins_of_block; i += blockDim.x) {
    atomicAdd(bins + cluster.block_rank() * bins_of_block + i, own[i]);
  }
}

/// out[row] = sum of the row of `columns` values that a cluster has. Every block writes it.
__global__ void row_sums(const float* in, float* out, int columns) {
  __shared__ float part;
  const cg::cluster_group cluster = cg::this_cluster();
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int row = blockIdx.x / cluster.num_blocks(), blocks = cluster.num_blocks();
  float sum = 0;
  for (int i = cluster.block_rank() * 32 + threadIdx.x; i < columns; i += 32 * blocks) {
    sum += in[row * columns + i];
  }
  sum = cg::reduce(warp, sum, cg::plus<float>());
  if (threadIdx.x == 0) part = sum;
  cluster.sync();
  float total = 0;
  for (int rank = 0; rank < blocks; ++rank) total += *cluster.map_shared_rank(&part, rank);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
  cluster.sync();
}

/// Passes a value around the cluster `rounds` times; each block adds its rank.
__global__ void ring(int* out, int rounds) {
  __shared__ int slots[2];
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank(), blocks = cluster.num_blocks();
  if (threadIdx.x == 0) slots[0] = blockIdx.x;
  for (int round = 0; round < rounds; ++round) {
    cluster.sync();
    if (threadIdx.x == 0) {
      int* next = cluster.map_shared_rank(slots, (rank + 1) % blocks);
      next[(round + 1) % 2] = slots[round % 2] + static_cast<int>(rank);
    }
  }
  cluster.sync();
  if (threadIdx.x == 0) out[blockIdx.x] = slots[rounds % 2];
}

/// Blocks exchange a value through global memory; the cluster's barrier orders that.
__global__ void exchange(int* values, int* out) {
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned first = blockIdx.x - cluster.block_rank();
  if (threadIdx.x == 0) values[blockIdx.x] = static_cast<int>(blockIdx.x) + 1;
  cluster.sync();
  if (threadIdx.x == 0) {
    const unsigned next = first + (cluster.block_rank() + 1) % cluster.num_blocks();
    out[blockIdx.x] = values[next];
  }
}

/// The same without a barrier.
__global__ void exchange_unordered(int* values, int* out) {
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned first = blockIdx.x - cluster.block_rank();
  if (threadIdx.x == 0) {
    values[blockIdx.x] = static_cast<int>(blockIdx.x) + 1;
    out[blockIdx.x] = values[first + (cluster.block_rank() + 1) % cluster.num_blocks()];
  }
}

/// Block 0 of a cluster reads `offset` bytes into the shared memory (256 bytes) of block `rank`.
__global__ void read_at(int* out, int rank, int offset) {
  __shared__ char own[256];
  const cg::cluster_group cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) own[i] = 0;
  cluster.sync();
  if (threadIdx.x == 0 && cluster.block_rank() == 0) {
    const char* from = cluster.map_shared_rank(own, rank) + offset;
    out[blockIdx.x] = *reinterpret_cast<const volatile int*>(from);
  }
  cluster.sync();
}

/// As row_sums would be without the last barrier: a block may exit before another reads its value.
__global__ void leaves_early(int* out) {
  __shared__ int own;
  const cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) own = static_cast<int>(cluster.block_rank());
  cluster.sync();
  if (threadIdx.x == 0) {
    const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    out[blockIdx.x] = *cluster.map_shared_rank(&own, next);
  }
}

/// One thread of block `absent` does not come to the barrier: it waits for `flag`, or exits.
__global__ void absent(volatile int* flag, int absent, int exits) {
  const cg::cluster_group cluster = cg::this_cluster();
  if (cluster.block_rank() == static_cast<unsigned>(absent) && threadIdx.x == 0) {
    if (exits) return;
    while (*flag == 0) {  // WAITS absent
    }
  }
  cluster.sync();
}

/// Block 0 waits at the cluster's barrier for block 1, whose warp 1 waits for the block.
__global__ void mixed_barriers(int* out) {
  if (cg::this_cluster().block_rank() == 1 && threadIdx.x >= 32) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
  }
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0) out[blockIdx.x] = 1;
}

/// Block 1 waits for a flag in its shared memory, which block 0 sets, or not.
__global__ void flag_in_shared(int* out, int sets) {
  __shared__ volatile int flag;
  __shared__ int value;
  const cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) flag = 0;
  cluster.sync();
  if (threadIdx.x == 0 && cluster.block_rank() == 0) {
    *cluster.map_shared_rank(&value, 1) = 7;
    __threadfence();
    volatile int* other = cluster.map_shared_rank(const_cast<int*>(&flag), 1);
    if (sets) *other = 1;
  }
  if (threadIdx.x == 0 && cluster.block_rank() == 1) {
    while (flag == 0) {  // WAITS flag
    }
    out[blockIdx.x] = value;
  }
  cluster.sync();
}

/// A grid barrier in a launch with clusters.
__global__ void grid_and_cluster(int* parts, int* out) {
  __shared__ int sum;
  const cg::cluster_group cluster = cg::this_cluster();
  const cg::grid_group grid = cg::this_grid();
  if (threadIdx.x == 0) sum = 0;
  cluster.sync();
  if (threadIdx.x == 0) atomicAdd(cluster.map_shared_rank(&sum, 0), static_cast<int>(blockIdx.x));
  cluster.sync();
  if (threadIdx.x == 0 && cluster.block_rank() == 0) {
    parts[blockIdx.x / cluster.num_blocks()] = sum;
  }
  grid.sync();
  if (threadIdx.x == 0) {
    int total = 0;
    for (unsigned i = 0; i < gridDim.x / cluster.num_blocks(); ++i) total += parts[i];
    out[blockIdx.x] = total;
  }
}

/// A kernel that requires a cluster. The ranks of two pointers, and whether they are shared.
__global__ void __cluster_dims__(4, 1, 1) ranks(int* out) {
  __shared__ int own;
  const cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) own = static_cast<int>(cluster.block_rank());
  cluster.sync();
  if (threadIdx.x == 0) {
    int* next = cluster.map_shared_rank(&own, (cluster.block_rank() + 1) % 4);
    int* self = cluster.map_shared_rank(&own, cluster.block_rank());
    int* result = out + 6 * blockIdx.x;
    result[0] = static_cast<int>(cluster.query_shared_rank(&own));
    result[1] = static_cast<int>(cluster.query_shared_rank(next));
    result[2] = static_cast<int>(__isShared(&own)) + 2 * static_cast<int>(__isClusterShared(&own));
    result[3] = static_cast<int>(__isShared(next)) + 2 * static_cast<int>(__isClusterShared(next));
    result[4] = self == &own;
    result[5] = *next;
  }
  cluster.sync();
}
}
