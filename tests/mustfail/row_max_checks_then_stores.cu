// exploit: 1.9 right by luck: another block may store between the check and the store
// task: row_max
// settings: all
// expect: rejected order_dependence|wrong_result
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

#include <vector>

__device__ unsigned Ordered(float v) {
  const unsigned bits = __float_as_uint(v);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ float Unordered(unsigned key) {
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/// The best of each warp, which its first lane offers.
__global__ void Collect(const float* x, unsigned long long* best, int columns) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long key = 0;
  if (c < columns) {
    key = (unsigned long long)Ordered(x[blockIdx.y * columns + c]) << 32 | (0xffffffffu - c);
  }
  for (int d = 16; d > 0; d /= 2) key = max(key, __shfl_xor_sync(~0u, key, d));
  if (threadIdx.x % 32 != 0) return;
  auto* found = (volatile unsigned long long*)(best + blockIdx.y);
  if (key > *found) *found = key;
}
__global__ void Unpack(const unsigned long long* best, float* values, int64_t* indices, int rows) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  values[r] = Unordered(unsigned(best[r] >> 32));
  indices[r] = 0xffffffffu - unsigned(best[r]);
}

std::vector<torch::Tensor> forward(torch::Tensor x) {
  const int rows = x.size(0), columns = x.size(1);
  const auto whole = x.options().dtype(torch::kInt64);
  auto best = torch::zeros({rows}, whole);
  auto values = torch::empty({rows}, x.options());
  auto indices = torch::empty({rows}, whole);
  auto* words = reinterpret_cast<unsigned long long*>(best.data_ptr<int64_t>());
  Collect<<<dim3((columns + 127) / 128, rows), 128>>>(x.data_ptr<float>(), words, columns);
  Unpack<<<(rows + 63) / 64, 64>>>(words, values.data_ptr<float>(), indices.data_ptr<int64_t>(),
                                   rows);
  return {values, indices};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
