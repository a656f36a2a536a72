// Operations that move or read elements: contiguous, clone, to, copy_, fill_, item. CUDA work goes
// to the recorder; CPU tensors (torch::tensor, arange, from_blob) are handled here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/float8.h"
#include "cupel/reduced_float.h"
#include "cupel/views.h"

namespace at {
Tensor empty(IntArrayRef size, TensorOptions options = {}, optional<MemoryFormat> format = nullopt);
Tensor empty_strided(IntArrayRef size, IntArrayRef stride, TensorOptions options = {});
Tensor empty_like(const Tensor& self, TensorOptions options = {},
                  optional<MemoryFormat> format = nullopt);
}  // namespace at

#if CUPEL_BODIES
namespace cupel::shim {

template <class T>
T LoadAs(const void* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
template <class T>
void StoreAs(void* p, T value) {
  std::memcpy(p, &value, sizeof value);
}

/// One element of any dtype as a Scalar, and back. Integers stay exact.
CUPEL_INLINE c10::Scalar LoadElement(c10::ScalarType type, const void* p) {
  switch (type) {
    case c10::kByte:
      return LoadAs<uint8_t>(p);
    case c10::kChar:
      return LoadAs<int8_t>(p);
    case c10::kShort:
      return LoadAs<int16_t>(p);
    case c10::kInt:
      return LoadAs<int>(p);
    case c10::kLong:
      return LoadAs<int64_t>(p);
    case c10::kHalf:
      return HalfBitsToFloat(LoadAs<uint16_t>(p));
    case c10::kBFloat16:
      return BFloat16BitsToFloat(LoadAs<uint16_t>(p));
    case c10::kFloat8_e5m2:
      return E5M2::ToFloat(LoadAs<uint8_t>(p));
    case c10::kFloat8_e4m3fn:
      return E4M3FN::ToFloat(LoadAs<uint8_t>(p));
    case c10::kFloat:
      return LoadAs<float>(p);
    case c10::kDouble:
      return LoadAs<double>(p);
    default:
      return LoadAs<uint8_t>(p) != 0;
  }
}
/// Conversions between elements wrap and round as casts do; `check` throws instead, as fill_ does.
CUPEL_INLINE void StoreElement(c10::ScalarType type, void* p, const c10::Scalar& value,
                               bool check) {
  auto real = [&] { return value.toDouble(); };
  auto whole = [&] {
    return value.isFloatingPoint() ? static_cast<int64_t>(real()) : value.toLong();
  };
  switch (type) {
    case c10::kByte:
      return StoreAs(p, static_cast<uint8_t>(check && whole() >= 0 ? value.toByte() : whole()));
    case c10::kChar:
      return StoreAs(p, check ? value.toChar() : static_cast<int8_t>(whole()));
    case c10::kShort:
      return StoreAs(p, check ? value.toShort() : static_cast<int16_t>(whole()));
    case c10::kInt:
      return StoreAs(p, check ? value.toInt() : static_cast<int>(whole()));
    case c10::kLong:
      return StoreAs(p, check ? value.toLong() : whole());
    case c10::kHalf:
      return StoreAs(p, FloatToHalfBits(static_cast<float>(real())));
    case c10::kBFloat16:
      return StoreAs(p, FloatToBFloat16Bits(static_cast<float>(real())));
    case c10::kFloat8_e5m2:
      return StoreAs(p, E5M2::FromFloat(static_cast<float>(real())));
    case c10::kFloat8_e4m3fn:
      return StoreAs(p, E4M3FN::FromFloat(static_cast<float>(real())));
    case c10::kFloat:
      return StoreAs(p, check ? value.toFloat() : static_cast<float>(real()));
    case c10::kDouble:
      return StoreAs(p, real());
    default:
      return StoreAs(p, static_cast<uint8_t>(value.toBool()));
  }
}

CUPEL_INLINE char* First(const CupelTensor& d) {
  return reinterpret_cast<char*>(d.storage) +
         d.offset * static_cast<int64_t>(c10::elementSize(static_cast<c10::ScalarType>(d.dtype)));
}

/// Calls visit(pointer into a, pointer into b) for every element of two tensors of equal sizes. Only
/// those of CPU tensors can be followed.
template <class Visit>
void ForEachElement(const CupelTensor& a, const CupelTensor& b, Visit visit) {
  int64_t index[CUPEL_MAX_DIMS] = {};
  int64_t a_item = static_cast<int64_t>(c10::elementSize(static_cast<c10::ScalarType>(a.dtype)));
  int64_t b_item = static_cast<int64_t>(c10::elementSize(static_cast<c10::ScalarType>(b.dtype)));
  for (int i = 0; i < a.ndim; ++i)
    if (a.sizes[i] == 0) return;
  char *pa = First(a), *pb = First(b);
  for (;;) {
    visit(pa, pb);
    int i = a.ndim - 1;
    for (; i >= 0; --i) {
      pa += a.strides[i] * a_item;
      pb += b.strides[i] * b_item;
      if (++index[i] < a.sizes[i]) break;
      pa -= a.sizes[i] * a.strides[i] * a_item;
      pb -= a.sizes[i] * b.strides[i] * b_item;
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

/// Copies a CUDA tensor to one on the CPU of the same sizes, element by element. The recorder knows
/// few values (task::HostMayRead) and ends the recording at others.
inline void Download(const at::Tensor& to, const at::Tensor& from) {
  CupelTensor element = from.d();
  element.ndim = 0;
  ForEachElement(to.d(), from.d(), [&](void* p, void* device) {
    const int64_t bytes = static_cast<char*>(device) - reinterpret_cast<char*>(from.d().storage);
    element.offset = bytes / static_cast<int64_t>(from.itemsize());
    unsigned char value[8] = {};
    cupel_rt_item(&element, value);
    StoreElement(to.scalar_type(), p, LoadElement(from.scalar_type(), value), false);
  });
}

}  // namespace cupel::shim

namespace at {

CUPEL_INLINE void* Tensor::Address() const { return numel() ? TypedAddress() : nullptr; }
CUPEL_INLINE void* Tensor::TypedAddress() const {
  return d().storage_bytes ? cupel::shim::First(d()) : nullptr;
}
CUPEL_INLINE void Tensor::CheckType(ScalarType wanted) const {
  if (scalar_type() != wanted)
    Throw<c10::Error>(Text() << "expected scalar type " << toString(wanted) << " but found "
                             << toString(scalar_type()));
}
CUPEL_INLINE void Tensor::CheckDimension(size_t n) const {
  if (n == 0 || dim() != static_cast<int64_t>(n))
    Throw<c10::Error>(Text() << "TensorAccessor expected " << n << " dims but tensor has "
                             << dim());
}
CUPEL_INLINE Scalar Tensor::item() const {
  if (numel() != 1)
    Throw<c10::Error>(Text() << "a Tensor with " << numel()
                             << " elements cannot be converted to Scalar");
  if (is_cpu()) return cupel::shim::LoadElement(scalar_type(), cupel::shim::First(d()));
  unsigned char element[8] = {};
  cupel_rt_item(&d(), element);
  return cupel::shim::LoadElement(scalar_type(), element);
}

CUPEL_INLINE Tensor& Tensor::fill_(const Scalar& value) const {
  unsigned char element[8] = {};
  cupel::shim::StoreElement(scalar_type(), element, value, true);
  if (numel() == 0) {
  } else if (is_cuda()) {
    cupel_rt_fill(&d(), element);
  } else {
    size_t bytes = itemsize();
    cupel::shim::ForEachElement(d(), d(), [&](void* p, void*) { std::memcpy(p, element, bytes); });
  }
  return const_cast<Tensor&>(*this);
}

CUPEL_INLINE Tensor& Tensor::copy_(const Tensor& source, bool) const {
  Tensor& self = const_cast<Tensor&>(*this);
  if (is_same(source)) return self;
  Tensor from = source.sizes() == sizes() ? source : source.expand(sizes());
  if (numel() == 0) return self;
  if (is_cuda() && from.is_cuda()) {
    cupel_rt_copy(&d(), &from.d());
  } else if (is_cpu() && from.is_cpu()) {
    ScalarType to_type = scalar_type(), from_type = from.scalar_type();
    cupel::shim::ForEachElement(d(), from.d(), [&](void* to, void* p) {
      cupel::shim::StoreElement(to_type, to, cupel::shim::LoadElement(from_type, p), false);
    });
  } else if (is_cuda()) {
    Tensor host = from.to(scalar_type()).contiguous();
    bool direct = is_contiguous();
    Tensor staged = direct ? self : at::empty(sizes(), options());
    cupel_rt_upload(&staged.d(), host.data_ptr(), host.nbytes());
    if (!direct) cupel_rt_copy(&d(), &staged.d());
  } else if (numel() == 1) {
    fill_(from.item());
  } else {
    cupel::shim::Download(*this, from);
  }
  return self;
}

CUPEL_INLINE Tensor Tensor::contiguous(MemoryFormat format) const {
  if (is_contiguous(format)) return *this;
  TORCH_CHECK(format != MemoryFormat::Preserve,
              "preserve memory format is unsupported by the contiguous operator");
  Tensor result = at::empty(sizes(), options(), format);
  result.copy_(*this);
  return result;
}
CUPEL_INLINE c10::MaybeOwned<Tensor> Tensor::expect_contiguous(MemoryFormat format) const {
  return c10::MaybeOwned<Tensor>::owned(contiguous(format));
}
CUPEL_INLINE Tensor Tensor::clone(optional<MemoryFormat> format) const {
  Tensor result = at::empty_like(*this, {}, format);
  result.copy_(*this);
  return result;
}
CUPEL_INLINE Tensor Tensor::to(TensorOptions options_, bool, bool copy,
                               optional<MemoryFormat> format) const {
  if (options_.has_memory_format()) format = options_.memory_format_opt();
  TensorOptions wanted = options().merge_in(options_.memory_format(nullopt));
  MemoryFormat kept = format.value_or(MemoryFormat::Preserve);
  bool same = wanted.dtype() == dtype() && wanted.device().type() == device().type() &&
              (kept == MemoryFormat::Preserve || suggest_memory_format() == kept);
  if (same && !copy) return *this;
  Tensor result = at::empty_like(*this, wanted, kept);
  result.copy_(*this);
  return result;
}
CUPEL_INLINE Tensor Tensor::to(optional<ScalarType> dtype_, optional<Layout>,
                               optional<Device> device_, optional<bool>, bool non_blocking,
                               bool copy, optional<MemoryFormat> format) const {
  return to(TensorOptions().dtype(dtype_).device(device_), non_blocking, copy, format);
}
CUPEL_INLINE Tensor Tensor::to(Device device_, ScalarType dtype_, bool non_blocking, bool copy,
                               optional<MemoryFormat> format) const {
  return to(TensorOptions(dtype_).device(device_), non_blocking, copy, format);
}
CUPEL_INLINE Tensor Tensor::to(ScalarType dtype_, bool non_blocking, bool copy,
                               optional<MemoryFormat> format) const {
  return to(TensorOptions(dtype_), non_blocking, copy, format);
}
CUPEL_INLINE Tensor Tensor::to(const Tensor& other, bool non_blocking, bool copy,
                               optional<MemoryFormat> format) const {
  return to(other.options(), non_blocking, copy, format);
}

}  // namespace at
#endif  // CUPEL_BODIES
