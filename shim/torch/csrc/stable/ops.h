// Functions of torch::stable: factories, views, copies, and a few operators that PyTorch executes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch/csrc/stable/tensor.h"

namespace torch::stable {

using torch::headeronly::IntHeaderOnlyArrayRef;
using torch::headeronly::Layout;
using torch::headeronly::MemoryFormat;
using torch::headeronly::ScalarType;

namespace detail {
/// The options of a factory. Without a device or dtype, the tensor is as PyTorch makes it.
inline c10::TensorOptions Options(std::optional<ScalarType> dtype, std::optional<Device> device) {
  auto options = c10::TensorOptions().dtype(dtype);
  return device ? options.device(device->AsC10()) : options;
}
}  // namespace detail

// Factories.
inline Tensor empty(IntHeaderOnlyArrayRef size, std::optional<ScalarType> dtype = std::nullopt,
                    std::optional<Layout> = std::nullopt,
                    std::optional<Device> device = std::nullopt, std::optional<bool> = std::nullopt,
                    std::optional<MemoryFormat> format = std::nullopt) {
  return Tensor(at::empty(size, detail::Options(dtype, device), format));
}
inline Tensor full(IntHeaderOnlyArrayRef size, double value,
                   std::optional<ScalarType> dtype = std::nullopt,
                   std::optional<Layout> = std::nullopt,
                   std::optional<Device> device = std::nullopt,
                   std::optional<bool> = std::nullopt) {
  return Tensor(at::full(size, value, detail::Options(dtype, device)));
}
inline Tensor empty_like(const Tensor& self) { return Tensor(at::empty_like(self.AsAten())); }
inline Tensor new_empty(const Tensor& self, IntHeaderOnlyArrayRef size,
                        std::optional<ScalarType> dtype = std::nullopt,
                        std::optional<Layout> = std::nullopt,
                        std::optional<Device> device = std::nullopt,
                        std::optional<bool> = std::nullopt) {
  return Tensor(self.AsAten().new_empty(size, detail::Options(dtype, device)));
}
inline Tensor new_zeros(const Tensor& self, IntHeaderOnlyArrayRef size,
                        std::optional<ScalarType> dtype = std::nullopt,
                        std::optional<Layout> = std::nullopt,
                        std::optional<Device> device = std::nullopt,
                        std::optional<bool> = std::nullopt) {
  return Tensor(self.AsAten().new_zeros(size, detail::Options(dtype, device)));
}
namespace detail {
inline void* At(void* data, ScalarType dtype, int64_t offset) {
  return static_cast<char*>(data) + offset * static_cast<int64_t>(c10::elementSize(dtype));
}
}  // namespace detail
inline Tensor from_blob(void* data, IntHeaderOnlyArrayRef sizes, IntHeaderOnlyArrayRef strides,
                        Device device, ScalarType dtype, int64_t offset = 0,
                        Layout = Layout::Strided) {
  return Tensor(at::from_blob(detail::At(data, dtype, offset), sizes, strides,
                              detail::Options(dtype, device)));
}
/// `deleter` gets `data`.
template <class D, class = decltype(std::declval<D&>()(static_cast<void*>(nullptr)))>
Tensor from_blob(void* data, IntHeaderOnlyArrayRef sizes, IntHeaderOnlyArrayRef strides,
                 Device device, ScalarType dtype, D deleter, int64_t offset = 0,
                 Layout = Layout::Strided) {
  auto release = [data, deleter = std::move(deleter)](void*) mutable { deleter(data); };
  return Tensor(at::from_blob(detail::At(data, dtype, offset), sizes, strides, std::move(release),
                              detail::Options(dtype, device)));
}

// Views.
inline Tensor narrow(Tensor& self, int64_t dim, int64_t start, int64_t length) {
  return Tensor(self.AsAten().narrow(dim, start, length));
}
inline Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1) {
  return Tensor(self.AsAten().transpose(dim0, dim1));
}
inline Tensor flatten(const Tensor& self, int64_t start_dim = 0, int64_t end_dim = -1) {
  return Tensor(self.AsAten().flatten(start_dim, end_dim));
}
inline Tensor unsqueeze(const Tensor& self, int64_t dim) {
  return Tensor(self.AsAten().unsqueeze(dim));
}
inline Tensor squeeze(const Tensor& self, int64_t dim) {
  return Tensor(self.AsAten().squeeze(dim));
}
inline Tensor select(const Tensor& self, int64_t dim, int64_t index) {
  return Tensor(self.AsAten().select(dim, index));
}
inline Tensor reshape(const Tensor& self, IntHeaderOnlyArrayRef shape) {
  return Tensor(self.AsAten().reshape(shape));
}
inline Tensor view(const Tensor& self, IntHeaderOnlyArrayRef size) {
  return Tensor(self.AsAten().view(size));
}

// Copies and fills.
inline Tensor clone(const Tensor& self) { return Tensor(self.AsAten().clone()); }
inline Tensor contiguous(const Tensor& self, MemoryFormat format = MemoryFormat::Contiguous) {
  return Tensor(self.AsAten().contiguous(format));
}
inline Tensor copy_(Tensor& self, const Tensor& source,
                    std::optional<bool> non_blocking = std::nullopt) {
  return Tensor(self.AsAten().copy_(source.AsAten(), non_blocking.value_or(false)));
}
inline Tensor fill_(const Tensor& self, double value) { return Tensor(self.AsAten().fill_(value)); }
inline Tensor zero_(Tensor& self) { return Tensor(self.AsAten().zero_()); }
inline Tensor to(const Tensor& self, std::optional<ScalarType> dtype = std::nullopt,
                 std::optional<Layout> layout = std::nullopt,
                 std::optional<Device> device = std::nullopt,
                 std::optional<bool> pin_memory = std::nullopt, bool non_blocking = false,
                 bool copy = false, std::optional<MemoryFormat> format = std::nullopt) {
  std::optional<c10::Device> place;
  if (device) place = device->AsC10();
  return Tensor(self.AsAten().to(dtype, layout, place, pin_memory, non_blocking, copy, format));
}
inline Tensor to(const Tensor& self, Device device, bool non_blocking = false, bool copy = false) {
  return to(self, std::nullopt, std::nullopt, device, std::nullopt, non_blocking, copy);
}

// Operators that PyTorch executes.
inline Tensor matmul(const Tensor& self, const Tensor& other) {
  return Tensor(
      cupel::shim::CallOperator<at::Tensor>("aten::matmul", self.AsAten(), other.AsAten()));
}
inline Tensor amax(const Tensor& self, IntHeaderOnlyArrayRef dims, bool keepdim = false) {
  return Tensor(cupel::shim::CallOperator<at::Tensor>("aten::amax", self.AsAten(), dims, keepdim));
}
inline Tensor amax(const Tensor& self, int64_t dim, bool keepdim = false) {
  return amax(self, IntHeaderOnlyArrayRef(dim), keepdim);
}
inline Tensor sum(const Tensor& self, std::optional<IntHeaderOnlyArrayRef> dim = std::nullopt,
                  bool keepdim = false, std::optional<ScalarType> dtype = std::nullopt) {
  return Tensor(cupel::shim::CallOperator<at::Tensor>("aten::sum.dim_IntList", self.AsAten(), dim,
                                                      keepdim, dtype));
}
inline Tensor subtract(const Tensor& self, const Tensor& other, double alpha = 1.0) {
  return Tensor(cupel::shim::CallOperator<at::Tensor>("aten::subtract.Tensor", self.AsAten(),
                                                      other.AsAten(), alpha));
}
#ifndef CUPEL_LEAN_STRING
inline Tensor pad(const Tensor& self, IntHeaderOnlyArrayRef sizes,
                  const std::string& mode = "constant", double value = 0.0) {
  return Tensor(cupel::shim::CallOperator<at::Tensor>("aten::pad", self.AsAten(), sizes,
                                                      std::string_view(mode), value));
}
#endif

// Threads of the host: one.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t, const F& f) {
  if (begin < end) f(begin, end);
}
inline uint32_t get_num_threads() { return 1; }

}  // namespace torch::stable
