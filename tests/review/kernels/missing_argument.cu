// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void __launch_bounds__(256)
    Linear(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b,
           float* __restrict__ y, int outputs, int in, int out) {
  const int warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
  const int lane = threadIdx.x & 31;
  if (warp >= outputs) return;  // whole warps return
  const float* row = x + warp / out * in;
  const float* column = w + warp % out * in;
  float sum = 0;
  for (int k = lane; k < in; k += 32) sum += __ldg(row + k) * __ldg(column + k);
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffff, sum, d);
  if (lane == 0) y[warp] = sum + b[warp % out];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  const int out = w.size(0), outputs = x.size(0) * out;
  auto y = torch::empty({x.size(0), out}, x.options());
  Linear<<<(outputs * 32 + 255) / 256, 256>>>(x.data_ptr<float>(), w.data_ptr<float>(),
                                              b.data_ptr<float>(), y.data_ptr<float>(),
                                              (int)x.size(1), out);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
