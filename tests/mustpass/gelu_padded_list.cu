// task: gelu
// settings: all
// note: a list with room for more tensors, on the heap; its entries end with padding
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <memory>

__device__ float Gelu(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return x * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
}

struct Entry {
  const float* x;
  float* y;
  int64_t count;
  char used;
};
struct List {
  Entry entries[9];
  short tensors;
};

__global__ void GeluOfList(List list) {
  const Entry& entry = list.entries[blockIdx.y];
  const int64_t stride = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < entry.count * entry.used;
       i += stride)
    entry.y[i] = Gelu(entry.x[i]);
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  const std::unique_ptr<List> list(new List);
  Entry entry;
  entry.x = x.data_ptr<float>();
  entry.y = y.data_ptr<float>();
  entry.count = x.numel();
  entry.used = 1;
  list->entries[0] = entry;
  list->tensors = 1;
  const dim3 grid(256, list->tensors);
  GeluOfList<<<grid, 256, 0, at::cuda::getCurrentCUDAStream()>>>(*list);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
