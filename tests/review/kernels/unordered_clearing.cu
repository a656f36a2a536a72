// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Count(const int64_t* values, unsigned long long* counts, int n, int bins) {
  extern __shared__ unsigned mine[];
  for (int b = threadIdx.x; b < bins; b += blockDim.x) mine[b] = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&mine[values[i]], 1u);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += blockDim.x) {
    if (mine[b] > 0) atomicAdd(counts + b, (unsigned long long)mine[b]);
  }
}

torch::Tensor forward(torch::Tensor values, int64_t bins) {
  auto counts = torch::zeros({bins}, values.options());
  Count<<<6, 128, bins * sizeof(unsigned)>>>(
      values.data_ptr<int64_t>(), reinterpret_cast<unsigned long long*>(counts.data_ptr<int64_t>()),
      (int)values.numel(), (int)bins);
  return counts;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
