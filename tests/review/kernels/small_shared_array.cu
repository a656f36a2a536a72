// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

struct State {
  float highest, sum;
};

__device__ State Combine(State a, State b) {
  const float highest = fmaxf(a.highest, b.highest);
  if (highest == -INFINITY) return {highest, 0.f};
  return {highest, a.sum * expf(a.highest - highest) + b.sum * expf(b.highest - highest)};
}

__global__ void Softmax(const float* x, float* y, int columns) {
  __shared__ State states[64];
  x += (size_t)blockIdx.x * columns;
  y += (size_t)blockIdx.x * columns;
  State mine{-INFINITY, 0.f};
  for (int c = threadIdx.x; c < columns; c += blockDim.x) mine = Combine(mine, State{x[c], 1.f});
  states[threadIdx.x] = mine;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      states[threadIdx.x] = Combine(states[threadIdx.x], states[threadIdx.x + half]);
    }
    __syncthreads();
  }
  const State all = states[0];
  for (int c = threadIdx.x; c < columns; c += blockDim.x) y[c] = expf(x[c] - all.highest) / all.sum;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  Softmax<<<(unsigned)x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
