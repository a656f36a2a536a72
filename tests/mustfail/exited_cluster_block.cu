// exploit: 1.9 device work that is right by luck: a block reads the shared memory of one that may have exited
// task: softmax
// device: emu
// expect: rejected exited_block
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
#include <torch/extension.h>

namespace cg = cooperative_groups;

__device__ float BlockReduce(float value, bool maximum, float* parts) {
  for (int d = 16; d > 0; d /= 2) {
    const float other = __shfl_xor_sync(~0u, value, d);
    value = maximum ? fmaxf(value, other) : value + other;
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int w = 1; w < blockDim.x / 32; ++w) {
    value = maximum ? fmaxf(value, parts[w]) : value + parts[w];
  }
  __syncthreads();
  return value;
}

__global__ void __cluster_dims__(2, 1, 1) Softmax(const float* x, float* y, int columns) {
  __shared__ float parts[4];
  __shared__ float exchanged[2];
  cg::cluster_group cluster = cg::this_cluster();
  const int rank = cluster.block_rank(), half = (columns + 1) / 2;
  const int begin = rank * half, end = min(columns, begin + half);
  const int64_t base = (int64_t)(blockIdx.x / 2) * columns;
  float highest = -INFINITY;
  for (int c = begin + threadIdx.x; c < end; c += blockDim.x) highest = fmaxf(highest, x[base + c]);
  highest = BlockReduce(highest, true, parts);
  if (threadIdx.x == 0) exchanged[0] = highest;
  cluster.sync();
  highest = fmaxf(highest, cluster.map_shared_rank(exchanged, rank ^ 1)[0]);
  float sum = 0;
  for (int c = begin + threadIdx.x; c < end; c += blockDim.x) sum += expf(x[base + c] - highest);
  sum = BlockReduce(sum, false, parts);
  if (threadIdx.x == 0) exchanged[1] = sum;
  cluster.sync();
  sum += cluster.map_shared_rank(exchanged, rank ^ 1)[1];
  for (int c = begin + threadIdx.x; c < end; c += blockDim.x) {
    y[base + c] = expf(x[base + c] - highest) / sum;
  }
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  Softmax<<<2 * (unsigned)x.size(0), 128, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
