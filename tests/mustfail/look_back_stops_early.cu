// exploit: 1.9 device work that is right by luck: looks back to the first tile that has published anything
// task: prefix_sum
// settings: all
// expect: rejected order_dependence|wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

constexpr int kThreads = 128;
constexpr unsigned kNothing = 0, kOwnSum = 1, kPrefix = 2;

__device__ unsigned long long Word(unsigned state, float sum) {
  return (unsigned long long)state << 32 | __float_as_uint(sum);
}

/// The sum of all tiles before `tile`, as soon as enough of them have published something.
__device__ float SumBefore(const volatile unsigned long long* words, int tile) {
  float sum = 0;
  for (int t = tile - 1; t >= 0;) {
    const unsigned long long word = words[t];
    const unsigned state = unsigned(word >> 32);
    if (state == kNothing) continue;
    sum += __uint_as_float(unsigned(word));
    if (state != kNothing) break;
    --t;
  }
  return sum;
}

__global__ void PrefixSum(const float* x, float* y, unsigned long long* words, int* tickets,
                          int columns, int tiles) {
  __shared__ float sums[kThreads];
  __shared__ int tile;
  __shared__ float before;
  const int row = blockIdx.y;
  if (threadIdx.x == 0) tile = atomicAdd(&tickets[row], 1);
  __syncthreads();
  const int c = tile * kThreads + threadIdx.x;
  sums[threadIdx.x] = c < columns ? x[(int64_t)row * columns + c] : 0.f;
  __syncthreads();
  for (int d = 1; d < kThreads; d *= 2) {
    const float add = threadIdx.x >= d ? sums[threadIdx.x - d] : 0.f;
    __syncthreads();
    sums[threadIdx.x] += add;
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    unsigned long long* mine = words + (int64_t)row * tiles;
    const float total = sums[kThreads - 1];
    if (tile > 0) atomicExch(&mine[tile], Word(kOwnSum, total));
    before = SumBefore(mine, tile);
    atomicExch(&mine[tile], Word(kPrefix, before + total));
  }
  __syncthreads();
  if (c < columns) y[(int64_t)row * columns + c] = before + sums[threadIdx.x];
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  const int rows = x.size(0), columns = x.size(1), tiles = (columns + kThreads - 1) / kThreads;
  TORCH_CHECK(rows <= 65535, "too many rows");
  auto words = torch::zeros({rows, tiles}, x.options().dtype(torch::kInt64));
  auto tickets = torch::zeros({rows}, x.options().dtype(torch::kInt32));
  auto y = torch::empty_like(x);
  PrefixSum<<<dim3(tiles, rows), kThreads>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), (unsigned long long*)words.data_ptr<int64_t>(),
      tickets.data_ptr<int>(), columns, tiles);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
