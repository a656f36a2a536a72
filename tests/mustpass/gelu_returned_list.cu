// task: gelu
// settings: all
// note: a function returns a list with room for more tensors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__device__ float Gelu(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return x * (1.f - 1.f / (__expf(2.f * inner) + 1.f));
}

// Room for more tensors than there are, as in Apex' multi_tensor_apply.
struct List {
  const float* x[16];
  float* y[16];
  int64_t counts[16];
};

__global__ void GeluOfList(List list) {
  const int which = blockIdx.y;
  const int64_t stride = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < list.counts[which];
       i += stride)
    list.y[which][i] = Gelu(list.x[which][i]);
}

List ListOf(const torch::Tensor& x, torch::Tensor& y) {
  List list;
  list.x[0] = x.data_ptr<float>();
  list.y[0] = y.data_ptr<float>();
  list.counts[0] = x.numel();
  return list;
}

torch::Tensor forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  const dim3 grid(256, 1);
  GeluOfList<<<grid, 256, 0, at::cuda::getCurrentCUDAStream()>>>(ListOf(x, y));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
