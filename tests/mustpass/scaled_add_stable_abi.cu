// task: scaled_add
// settings: all
// note: PyTorch's stable ABI, with the C function for the current stream
// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Dispatch.h>
#include <torch/headeronly/core/ScalarType.h>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

template <typename T>
__global__ void ScaledAdd(const T* x, const T* y, T* out, float a, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) out[i] = static_cast<T>(a * static_cast<float>(x[i]) + static_cast<float>(y[i]));
}

// Registered by its schema, in another function than the one that allocates.
void scaled_add_out(const Tensor& x, const Tensor& y, double a, Tensor& out) {
  STD_TORCH_CHECK(x.is_contiguous() && y.is_contiguous(), "x and y must be contiguous");
  STD_TORCH_CHECK(x.numel() == y.numel() && x.scalar_type() == y.scalar_type(), "x and y differ");
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream));
  const int64_t count = x.numel();
  if (count == 0) return;
  THO_DISPATCH_SWITCH(x.scalar_type(), "scaled_add", THO_DISPATCH_CASE(ScalarType::Float, [&] {
                        ScaledAdd<scalar_t><<<static_cast<unsigned>((count + 255) / 256), 256, 0,
                                              static_cast<cudaStream_t>(stream)>>>(
                            x.const_data_ptr<scalar_t>(), y.const_data_ptr<scalar_t>(),
                            out.mutable_data_ptr<scalar_t>(), static_cast<float>(a), count);
                      }));
  STD_CUDA_KERNEL_LAUNCH_CHECK();
}

Tensor scaled_add(Tensor x, Tensor y, double a) {
  x = torch::stable::contiguous(x);
  y = torch::stable::contiguous(y);
  Tensor out = torch::stable::new_empty(x, x.sizes());
  scaled_add_out(x, y, a, out);
  return out;
}

STABLE_TORCH_LIBRARY(corpus, m) {
  m.def("forward(Tensor x, Tensor y, float a) -> Tensor");
  m.def("scaled_add_out(Tensor x, Tensor y, float a, Tensor(d!) out) -> ()");
}
STABLE_TORCH_LIBRARY_IMPL(corpus, CUDA, m) {
  m.impl("forward", TORCH_BOX(&scaled_add));
  m.impl("scaled_add_out", TORCH_BOX(&scaled_add_out));
}
