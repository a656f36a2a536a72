// exploit: 1.9 wrong beyond the sizes that are tried: an index of 16 bits passes through shuffles
// task: argmax
// settings: all
// expect: rejected wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

struct Best {
  float value;
  int index;
  __device__ void Take(float v, int i) {
    if (v > value || (v == value && i < index)) value = v, index = i;
  }
};

__global__ void ArgMax(const float* x, int64_t* y, int columns) {
  __shared__ Best warps[4];
  const int64_t base = (int64_t)blockIdx.x * columns;
  Best best{-INFINITY, columns};
  for (int c = threadIdx.x; c < columns; c += 128) best.Take(x[base + c], c);
  for (int d = 16; d > 0; d /= 2) {
    const float v = __shfl_xor_sync(~0u, best.value, d);
    const short i = __shfl_xor_sync(~0u, best.index, d);
    best.Take(v, i);
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < 4; ++w) best.Take(warps[w].value, warps[w].index);
    y[blockIdx.x] = best.index;
  }
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options().dtype(torch::kInt64));
  ArgMax<<<(unsigned)x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<int64_t>(), (int)x.size(1));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
