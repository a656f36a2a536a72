// task: histogram
// settings: all
// note: the bins are spread over the shared memory of a cluster; launched by cudaLaunchKernelEx
// SPDX-License-Identifier: Apache-2.0
#include <cooperative_groups.h>
#include <torch/extension.h>

namespace cg = cooperative_groups;

__global__ void Count(const int64_t* values, unsigned long long* counts, int n, int bins) {
  extern __shared__ unsigned mine[];
  const cg::cluster_group cluster = cg::this_cluster();
  const int part = (bins + cluster.num_blocks() - 1) / cluster.num_blocks();
  for (int b = threadIdx.x; b < part; b += blockDim.x) mine[b] = 0;
  cluster.sync();  // all blocks of the cluster have started, and their bins are zero
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const int bin = (int)values[i];
    atomicAdd(cluster.map_shared_rank(mine, bin / part) + bin % part, 1u);
  }
  cluster.sync();
  const int first = cluster.block_rank() * part;
  for (int b = threadIdx.x; b < part && first + b < bins; b += blockDim.x) {
    if (mine[b] > 0) atomicAdd(counts + first + b, (unsigned long long)mine[b]);
  }
}

torch::Tensor forward(torch::Tensor values, int64_t bins) {
  auto counts = torch::zeros({bins}, values.options());
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeClusterDimension;
  attribute[0].val.clusterDim.x = 4;
  attribute[0].val.clusterDim.y = 1;
  attribute[0].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(8, 1, 1);
  config.blockDim = dim3(128, 1, 1);
  config.dynamicSmemBytes = (bins + 3) / 4 * sizeof(unsigned);
  config.attrs = attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, Count, (const int64_t*)values.data_ptr<int64_t>(),
                     reinterpret_cast<unsigned long long*>(counts.data_ptr<int64_t>()),
                     (int)values.numel(), (int)bins);
  return counts;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
