// exploit: 1.9 device work that is right by luck: blocks add to counts by volatile loads and stores
// task: histogram
// settings: all
// expect: rejected order_dependence|outdated_read|wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Count(const int64_t* values, volatile int64_t* counts, int n, int bins) {
  extern __shared__ int mine[];
  for (int b = threadIdx.x; b < bins; b += blockDim.x) mine[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(mine + values[i], 1);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += blockDim.x) counts[b] = counts[b] + mine[b];
}

torch::Tensor forward(torch::Tensor values, int64_t bins) {
  auto counts = torch::zeros({bins}, values.options());
  const int n = values.numel();
  Count<<<(n + 511) / 512, 128, bins * 4>>>(values.data_ptr<int64_t>(), counts.data_ptr<int64_t>(),
                                            n, (int)bins);
  return counts;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
