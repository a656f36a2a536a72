// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
//
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

struct Moments {
  float mean, squares, count;
};
__device__ Moments Combine(Moments a, Moments b) {
  const float count = a.count + b.count;
  if (count == 0.f) return a;
  const float delta = b.mean - a.mean, share = b.count / count;
  return {a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share, count};
}

__global__ void LayerNorm(const float* x, const float* weight, const float* bias, float* y,
                          int columns) {
  __shared__ Moments warps[4];
  x += (size_t)blockIdx.x * columns;
  y += (size_t)blockIdx.x * columns;
  Moments m{0, 0, 0};
  for (int c = threadIdx.x; c < columns; c += blockDim.x) m = Combine(m, Moments{x[c], 0, 1});
  for (int d = 16; d > 0; d /= 2) {
    Moments other{__shfl_down_sync(~0u, m.mean, d), __shfl_down_sync(~0u, m.squares, d),
                  __shfl_down_sync(~0u, m.count, d)};
    m = Combine(m, other);
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = m;
  __syncthreads();
  m = warps[0];
  for (int w = 1; w < 4; ++w) m = Combine(m, warps[w]);
  const float scale = rsqrtf(m.squares / (columns - 1) + 1e-5f);
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    y[c] = (x[c] - m.mean) * scale * weight[c] + bias[c];
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  auto y = torch::empty_like(x);
  LayerNorm<<<(unsigned)x.size(0), 128>>>(x.data_ptr<float>(), weight.data_ptr<float>(),
                                          bias.data_ptr<float>(), y.data_ptr<float>(),
                                          (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
