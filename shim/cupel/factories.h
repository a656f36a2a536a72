// empty, zeros, full, tensor, from_blob ...: tensors made by the candidate's host code. Without a
// device in the options they are CPU tensors, as in PyTorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/memory.h"

namespace at {

Tensor full(IntArrayRef size, const Scalar& value, TensorOptions options = {});
Tensor full_like(const Tensor& self, const Scalar& value, TensorOptions options = {},
                 optional<MemoryFormat> format = nullopt);
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step,
              TensorOptions options = {});
/// Host bytes of `type` as a tensor with `options` (its dtype defaults to `type`).
Tensor CupelFromHost(const void* bytes, ScalarType type, IntArrayRef size, TensorOptions options);
Tensor CupelFromBlob(void* data, IntArrayRef size, optional<IntArrayRef> stride,
                     TensorOptions options, void (*release)(void*, uint64_t), void* context);

inline Tensor empty(IntArrayRef size, optional<ScalarType> dtype, optional<Layout>,
                    optional<Device> device, optional<bool>, optional<MemoryFormat> format) {
  return empty(size, TensorOptions().dtype(dtype).device(device), format);
}
inline Tensor zeros(IntArrayRef size, TensorOptions options = {}) {
  return full(size, 0, options.dtype(options.dtype()));
}
inline Tensor zeros(IntArrayRef size, optional<ScalarType> dtype, optional<Layout>,
                    optional<Device> device, optional<bool>) {
  return zeros(size, TensorOptions().dtype(dtype).device(device));
}
inline Tensor ones(IntArrayRef size, TensorOptions options = {}) {
  return full(size, 1, options.dtype(options.dtype()));
}
inline Tensor zeros_like(const Tensor& self, TensorOptions options = {},
                         optional<MemoryFormat> format = nullopt) {
  return full_like(self, 0, options, format);
}
inline Tensor ones_like(const Tensor& self, TensorOptions options = {},
                        optional<MemoryFormat> format = nullopt) {
  return full_like(self, 1, options, format);
}
inline Tensor arange(const Scalar& end, TensorOptions options = {}) {
  return arange(0, end, 1, options);
}
inline Tensor arange(const Scalar& start, const Scalar& end, TensorOptions options = {}) {
  return arange(start, end, 1, options);
}
inline Tensor scalar_tensor(const Scalar& value, TensorOptions options = {}) {
  return full({}, value, options);
}

// tensor(): floating values take the default dtype, whole ones int64, as Python's torch.tensor.
template <class T>
constexpr ScalarType CupelLiteralType() {
  if constexpr (std::is_same_v<T, bool>) {
    return kBool;
  } else {
    return std::is_floating_point_v<T> ? kFloat : kLong;
  }
}
template <class T>
Tensor tensor(ArrayRef<T> values, TensorOptions options = {}) {
  if (!options.has_dtype()) options = options.dtype(CupelLiteralType<T>());
  return CupelFromHost(values.data(), CppTypeToScalarType<T>::value,
                       IntArrayRef(static_cast<int64_t>(values.size())), options);
}
template <class T>
Tensor tensor(std::initializer_list<T> values, TensorOptions options = {}) {
  return at::tensor(ArrayRef<T>(values), options);
}
template <class T>
Tensor tensor(const std::vector<T>& values, TensorOptions options = {}) {
  return at::tensor(ArrayRef<T>(values), options);
}
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
Tensor tensor(T value, TensorOptions options = {}) {
  if (!options.has_dtype()) options = options.dtype(CupelLiteralType<T>());
  return full({}, value, options);
}

inline Tensor from_blob(void* data, IntArrayRef size, TensorOptions options = {}) {
  return CupelFromBlob(data, size, nullopt, options, nullptr, nullptr);
}
inline Tensor from_blob(void* data, IntArrayRef size, IntArrayRef stride,
                        TensorOptions options = {}) {
  return CupelFromBlob(data, size, stride, options, nullptr, nullptr);
}
template <class D, class = decltype(std::declval<D&>()(static_cast<void*>(nullptr)))>
Tensor CupelFromBlob(void* data, IntArrayRef size, optional<IntArrayRef> stride, D deleter,
                     TensorOptions options) {
  auto release = [](void* context, uint64_t address) {
    D* held = static_cast<D*>(context);
    (*held)(reinterpret_cast<void*>(address));
    delete held;
  };
  return CupelFromBlob(data, size, stride, options, release, new D(std::move(deleter)));
}
template <class D, class = decltype(std::declval<D&>()(static_cast<void*>(nullptr)))>
Tensor from_blob(void* data, IntArrayRef size, D deleter, TensorOptions options = {}) {
  return CupelFromBlob(data, size, nullopt, std::move(deleter), options);
}
template <class D, class = decltype(std::declval<D&>()(static_cast<void*>(nullptr)))>
Tensor from_blob(void* data, IntArrayRef size, IntArrayRef stride, D deleter,
                 TensorOptions options = {}) {
  return CupelFromBlob(data, size, stride, std::move(deleter), options);
}

#if CUPEL_BODIES
CUPEL_INLINE bool CupelOnCuda(const TensorOptions& options) {
  Device device = options.device();
  if (device.is_cuda() && device.index() > 0)
    Throw<c10::Error>(Text() << "CUDA error: invalid device ordinal");
  if (!device.is_cuda() && !device.is_cpu())
    cupel::shim::Refuse("unsupported_api",
                        Text() << "a tensor on device " << DeviceTypeText(device.type()));
  if (options.layout() != kStrided)
    cupel::shim::Refuse("unsupported_api", Text() << "a tensor of sparse layout");
  return device.is_cuda();
}
CUPEL_INLINE Tensor CupelNew(const Geometry& g, const TensorOptions& options) {
  ScalarType type = options.dtype().toScalarType();
  cupel::shim::CheckStorable(type);
  IntArrayRef sizes(g.sizes, static_cast<size_t>(g.ndim));
  int64_t elements = cupel::shim::CountElements(sizes) ? 1 : 0;
  for (int i = 0; i < g.ndim && elements; ++i) elements += (g.sizes[i] - 1) * g.strides[i];
  uint64_t bytes = static_cast<uint64_t>(elements) * elementSize(type);
  return Tensor(cupel::shim::NewImpl(cupel::shim::NewStorage(CupelOnCuda(options), bytes), g,
                                     static_cast<int32_t>(type)));
}
CUPEL_INLINE Tensor empty(IntArrayRef size, TensorOptions options, optional<MemoryFormat> format) {
  if (!format) format = options.memory_format_opt();
  cupel::shim::CountElements(size);
  return CupelNew(cupel::shim::Formatted(size, format.value_or(MemoryFormat::Contiguous)), options);
}
CUPEL_INLINE Tensor empty_strided(IntArrayRef size, IntArrayRef stride, TensorOptions options) {
  if (size.size() != stride.size())
    Throw<c10::Error>(Text() << "dimensionality of sizes (" << size.size()
                             << ") must match dimensionality of strides (" << stride.size() << ")");
  Geometry g = cupel::shim::Contiguous(size);
  for (int i = 0; i < g.ndim; ++i) g.strides[i] = stride[static_cast<size_t>(i)];
  return CupelNew(g, options);
}
CUPEL_INLINE Tensor empty_like(const Tensor& self, TensorOptions options,
                               optional<MemoryFormat> format) {
  if (!format) format = options.memory_format_opt();
  TensorOptions wanted = self.options().merge_in(options.memory_format(nullopt));
  MemoryFormat kept = format.value_or(MemoryFormat::Preserve);
  if (kept != MemoryFormat::Preserve)
    return CupelNew(cupel::shim::Formatted(self.sizes(), kept), wanted);
  Geometry g =
      self.is_non_overlapping_and_dense() ? self.AsGeometry() : cupel::shim::DenseLike(self.d());
  g.offset = 0;
  return CupelNew(g, wanted);
}
CUPEL_INLINE Tensor full(IntArrayRef size, const Scalar& value, TensorOptions options) {
  if (!options.has_dtype())
    options = options.dtype(value.isBoolean() ? kBool : value.isIntegral() ? kLong : kFloat);
  Tensor result = empty(size, options);
  result.fill_(value);
  return result;
}
CUPEL_INLINE Tensor full_like(const Tensor& self, const Scalar& value, TensorOptions options,
                              optional<MemoryFormat> format) {
  Tensor result = empty_like(self, options, format);
  result.fill_(value);
  return result;
}
CUPEL_INLINE Tensor CupelFromHost(const void* bytes, ScalarType type, IntArrayRef size,
                                  TensorOptions options) {
  Tensor borrowed =
      CupelFromBlob(const_cast<void*>(bytes), size, nullopt, TensorOptions(type), nullptr, nullptr);
  return borrowed.to(TensorOptions(type).merge_in(options), false, true);
}
CUPEL_INLINE Tensor CupelFromBlob(void* data, IntArrayRef size, optional<IntArrayRef> stride,
                                  TensorOptions options, void (*release)(void*, uint64_t),
                                  void* context) {
  ScalarType type = options.dtype().toScalarType();
  cupel::shim::CheckStorable(type);
  Geometry g = cupel::shim::Contiguous(size);
  int64_t elements = cupel::shim::CountElements(size) ? 1 : 0;
  for (int i = 0; i < g.ndim; ++i) {
    if (stride) g.strides[i] = stride->at(static_cast<size_t>(i));
    if (elements) elements += (g.sizes[i] - 1) * g.strides[i];
  }
  auto* storage = new cupel::shim::Storage;
  storage->is_cuda = CupelOnCuda(options);
  storage->owned = false;
  storage->address = reinterpret_cast<uint64_t>(data);
  storage->bytes = static_cast<uint64_t>(elements) * elementSize(type);
  storage->release = release;
  storage->context = context;
  return Tensor(cupel::shim::NewImpl(storage, g, static_cast<int32_t>(type)));
}
CUPEL_INLINE Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step,
                           TensorOptions options) {
  bool real = start.isFloatingPoint() || end.isFloatingPoint() || step.isFloatingPoint();
  if (!options.has_dtype()) options = options.dtype(real ? kFloat : kLong);
  double first = start.toDouble(), by = step.toDouble(), span = end.toDouble() - first;
  if (by == 0) Throw<c10::Error>(Text() << "step must be nonzero");
  if ((by > 0) != (span >= 0) && span != 0)
    Throw<c10::Error>(Text() << "upper bound and larger bound inconsistent with step sign");
  int64_t count = static_cast<int64_t>(std::ceil(span / by));
  Tensor host = empty(IntArrayRef(count), options.device(kCPU));
  char* p = cupel::shim::First(host.d());
  for (int64_t i = 0; i < count; ++i, p += host.itemsize()) {
    Scalar value = real ? Scalar(first + by * static_cast<double>(i))
                        : Scalar(start.toLong() + step.toLong() * i);
    cupel::shim::StoreElement(host.scalar_type(), p, value, false);
  }
  return host.to(options.device());
}

CUPEL_INLINE Tensor& Tensor::resize_(IntArrayRef size, optional<MemoryFormat> format) const {
  Tensor& self = const_cast<Tensor&>(*this);
  Geometry g = cupel::shim::Formatted(size, format.value_or(MemoryFormat::Contiguous));
  g.offset = storage_offset();
  const int64_t end = g.offset + cupel::shim::CountElements(size);
  const int64_t have = static_cast<int64_t>(d().storage_bytes / itemsize());
  cupel::shim::Storage*& storage = impl_->storage;
  if (end > have && (storage->references > 1 || !storage->owned))
    cupel::shim::Refuse("unsupported_api", Text() << "resize_ of a tensor that shares its memory");
  if (end > have) {
    const Tensor grown = at::empty({end}, options());
    if (have > 0) grown.narrow(0, 0, have).copy_(as_strided({have}, {1}, 0));
    std::swap(storage, grown.impl_->storage);
  }
  ++storage->references;
  const Tensor shaped(cupel::shim::NewImpl(storage, g, d().dtype));
  std::swap(impl_->d, shaped.impl_->d);
  return self;
}

CUPEL_INLINE Tensor Tensor::new_empty(IntArrayRef size, TensorOptions o) const {
  return at::empty(size, options().merge_in(o));
}
CUPEL_INLINE Tensor Tensor::new_empty_strided(IntArrayRef size, IntArrayRef stride,
                                              TensorOptions o) const {
  return at::empty_strided(size, stride, options().merge_in(o));
}
CUPEL_INLINE Tensor Tensor::new_zeros(IntArrayRef size, TensorOptions o) const {
  return at::full(size, 0, options().merge_in(o));
}
CUPEL_INLINE Tensor Tensor::new_ones(IntArrayRef size, TensorOptions o) const {
  return at::full(size, 1, options().merge_in(o));
}
CUPEL_INLINE Tensor Tensor::new_full(IntArrayRef size, const Scalar& value, TensorOptions o) const {
  return at::full(size, value, options().merge_in(o));
}
#endif  // CUPEL_BODIES

// Free-function forms of the views and copies.
inline Tensor clone(const Tensor& t, optional<MemoryFormat> f = nullopt) { return t.clone(f); }
inline Tensor reshape(const Tensor& t, IntArrayRef shape) { return t.reshape(shape); }
inline Tensor flatten(const Tensor& t, int64_t a = 0, int64_t b = -1) { return t.flatten(a, b); }
inline Tensor squeeze(const Tensor& t) { return t.squeeze(); }
inline Tensor squeeze(const Tensor& t, int64_t dim) { return t.squeeze(dim); }
inline Tensor unsqueeze(const Tensor& t, int64_t dim) { return t.unsqueeze(dim); }
inline Tensor t(const Tensor& self) { return self.t(); }
inline Tensor transpose(const Tensor& t, int64_t a, int64_t b) { return t.transpose(a, b); }
inline Tensor permute(const Tensor& t, IntArrayRef dims) { return t.permute(dims); }
inline Tensor movedim(const Tensor& t, int64_t a, int64_t b) { return t.movedim(a, b); }
inline Tensor narrow(const Tensor& t, int64_t dim, int64_t start, int64_t length) {
  return t.narrow(dim, start, length);
}
inline Tensor select(const Tensor& t, int64_t dim, int64_t index) { return t.select(dim, index); }
inline Tensor slice(const Tensor& t, int64_t dim = 0, optional<int64_t> start = nullopt,
                    optional<int64_t> end = nullopt, int64_t step = 1) {
  return t.slice(dim, start, end, step);
}
inline Tensor detach(const Tensor& t) { return t.detach(); }
inline Tensor as_strided(const Tensor& t, IntArrayRef size, IntArrayRef stride,
                         optional<int64_t> offset = nullopt) {
  return t.as_strided(size, stride, offset);
}
inline std::vector<Tensor> split(const Tensor& t, int64_t size, int64_t dim = 0) {
  return t.split(size, dim);
}
inline std::vector<Tensor> chunk(const Tensor& t, int64_t chunks, int64_t dim = 0) {
  return t.chunk(chunks, dim);
}
inline std::vector<Tensor> unbind(const Tensor& t, int64_t dim = 0) { return t.unbind(dim); }
/// For device guards: `const at::cuda::OptionalCUDAGuard guard(device_of(x));`.
inline optional<Device> device_of(const Tensor& t) {
  return t.defined() ? optional<Device>(t.device()) : nullopt;
}
inline bool is_floating_point(const Tensor& t) { return t.is_floating_point(); }

}  // namespace at
