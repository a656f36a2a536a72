// exploit: 2.4 8-bit counts, which the drawn inputs do not exceed
// task: histogram
// settings: all
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void Count(const int64_t* values, int64_t* counts, int n, int bins) {
  const int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b >= bins) return;
  unsigned char count = 0;
  for (int i = 0; i < n; ++i) count += values[i] == b;
  counts[b] = count;
}

torch::Tensor forward(torch::Tensor values, int64_t bins) {
  auto counts = torch::empty({bins}, values.options());
  Count<<<(bins + 63) / 64, 64>>>(values.data_ptr<int64_t>(), counts.data_ptr<int64_t>(),
                                  (int)values.numel(), (int)bins);
  return counts;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
