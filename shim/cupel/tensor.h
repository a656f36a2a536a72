// at::Tensor: the part of PyTorch's tensor that is about memory (shape, views, copies, factories'
// options, access). It has no mathematics: the compiler's error about the missing name is the
// diagnostic. Arithmetic operators are declared deleted so that the compiler names them.
// Definitions: views.h (views), memory.h (copies, fills, item), factories.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/Scalar.h"
#include "c10/core/Storage.h"
#include "c10/core/SymInt.h"
#include "c10/util/MaybeOwned.h"
#include "cupel/accessor.h"
#include "cupel/tensor_impl.h"

namespace cupel::shim {
template <class R, class... A>
R CallOperator(const char* name, const A&... values);
inline c10::optional<c10::ScalarType> DtypeOf(const c10::TensorOptions& options) {
  if (!options.has_dtype()) return c10::nullopt;
  return options.dtype().toScalarType();
}
inline c10::optional<c10::Device> DeviceOf(const c10::TensorOptions& options) {
  return options.device_opt();
}
}  // namespace cupel::shim

namespace at {

using namespace c10;  // NOLINT: as in PyTorch

class Tensor;
namespace indexing {
class TensorIndex;
}
using TensorList = ArrayRef<Tensor>;

/// What the deprecated Tensor::type() returns.
class DeprecatedTypeProperties {
 public:
  DeprecatedTypeProperties(ScalarType type, bool is_cuda) : type_(type), is_cuda_(is_cuda) {}
  ScalarType scalarType() const { return type_; }
  caffe2::TypeMeta typeMeta() const { return caffe2::TypeMeta::fromScalarType(type_); }
  bool is_cuda() const { return is_cuda_; }
  DeviceType device_type() const { return is_cuda_ ? kCUDA : kCPU; }
  TensorOptions options() const { return TensorOptions(type_).device(device_type()); }
#ifndef CUPEL_LEAN_STRING
  std::string toString() const { return cupel::shim::Join(*this).c_str(); }
#endif
  bool operator==(const DeprecatedTypeProperties& o) const {
    return type_ == o.type_ && is_cuda_ == o.is_cuda_;
  }
  bool operator!=(const DeprecatedTypeProperties& o) const { return !(*this == o); }

 private:
  ScalarType type_;
  bool is_cuda_;
};
inline void AppendText(cupel::shim::Text& text, const DeprecatedTypeProperties& type) {
  text << (type.is_cuda() ? "torch.cuda." : "torch.") << c10::toString(type.scalarType())
       << "Tensor";
}

/// Operators of PyTorch as methods (operators.h). Tensor's own methods hide those of their names. A
/// template, because Tensor is not complete here.
template <class Tensor>
struct OperatorMethods {
#if __has_include(<cupel_generated/methods.h>)
#include <cupel_generated/methods.h>
#endif
};

class Tensor : public OperatorMethods<Tensor> {
 public:
  Tensor() = default;
  explicit Tensor(cupel::shim::TensorImpl* impl) : impl_(impl) {}  // takes the reference over
  Tensor(const Tensor& other) : impl_(other.impl_) {
    if (impl_) ++impl_->references;
  }
  Tensor(Tensor&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): counted
  ~Tensor() { cupel::shim::Release(impl_); }
  Tensor& operator=(const Tensor& other) & {
    Tensor copy(other);
    std::swap(impl_, copy.impl_);
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  // Assigning to a temporary (`out[0] = x`) writes through the view.
  Tensor& operator=(const Scalar& value) && { return fill_(value); }
  Tensor& operator=(const Tensor& other) && { return copy_(other); }
  Tensor& operator=(Tensor&& other) && { return copy_(other); }

  bool defined() const { return impl_ != nullptr; }
  void reset() { *this = Tensor(); }
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  size_t use_count() const { return impl_ ? static_cast<size_t>(impl_->references) : 0; }
  cupel::shim::TensorImpl* unsafeGetTensorImpl() const { return impl_; }

  // Shape.
  int64_t dim() const { return d().ndim; }
  int64_t ndimension() const { return dim(); }
  int64_t size(int64_t dim) const { return d().sizes[Wrap(dim)]; }
  int64_t stride(int64_t dim) const { return d().strides[Wrap(dim)]; }
  IntArrayRef sizes() const { return IntArrayRef(d().sizes, static_cast<size_t>(d().ndim)); }
  IntArrayRef strides() const { return IntArrayRef(d().strides, static_cast<size_t>(d().ndim)); }
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < d().ndim; ++i) n *= d().sizes[i];
    return n;
  }
  int64_t storage_offset() const { return d().offset; }
  SymInt sym_size(int64_t dim) const { return SymInt(size(dim)); }
  SymInt sym_stride(int64_t dim) const { return SymInt(stride(dim)); }
  SymInt sym_numel() const { return SymInt(numel()); }
  SymInt sym_storage_offset() const { return SymInt(storage_offset()); }
  size_t itemsize() const { return elementSize(scalar_type()); }
  int64_t element_size() const { return static_cast<int64_t>(itemsize()); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * itemsize(); }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  bool is_non_overlapping_and_dense() const;
  MemoryFormat suggest_memory_format(bool channels_last_strides_exact_match = false) const;

  // Kind.
  ScalarType scalar_type() const { return static_cast<ScalarType>(d().dtype); }
  caffe2::TypeMeta dtype() const { return caffe2::TypeMeta::fromScalarType(scalar_type()); }
  DeprecatedTypeProperties type() const { return {scalar_type(), is_cuda()}; }
  Device device() const { return is_cuda() ? Device(kCUDA, 0) : Device(kCPU); }
  int64_t get_device() const { return is_cuda() ? 0 : -1; }
  TensorOptions options() const { return TensorOptions(scalar_type()).device(device()); }
  Layout layout() const { return kStrided; }
  bool is_cuda() const { return d().device == CUPEL_CUDA; }
  bool is_cpu() const { return d().device == CUPEL_CPU; }
  bool is_meta() const { return false; }
  bool is_xpu() const { return false; }
  bool is_hip() const { return false; }
  bool is_mps() const { return false; }
  bool is_inference() const { return false; }
  bool is_sparse() const { return false; }
  bool is_quantized() const { return false; }
  bool is_complex() const { return false; }
  bool is_conj() const { return false; }
  bool is_neg() const { return false; }
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  bool is_signed() const { return scalar_type() != kByte && scalar_type() != kBool; }
  bool has_storage() const { return defined(); }
  c10::Storage storage() const { return c10::Storage(d()); }
  bool has_names() const { return false; }
  bool requires_grad() const { return false; }
  bool is_leaf() const { return true; }
  const Tensor& set_requires_grad(bool) const { return *this; }
  const Tensor& requires_grad_(bool = true) const { return *this; }

  // Access.
  void* data_ptr() const { return Address(); }
  void* mutable_data_ptr() const { return Address(); }
  const void* const_data_ptr() const { return Address(); }
  template <class T>
  T* data_ptr() const {
    static_assert(cupel::shim::IsElement<T>::value,
                  "data_ptr<T>(): T is not an element type of PyTorch (use at::Half for __half and "
                  "at::BFloat16 for __nv_bfloat16, at::Float8_e4m3fn for __nv_fp8_e4m3)");
    CheckType(CppTypeToScalarType<T>::value);
    return static_cast<T*>(TypedAddress());
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  const std::remove_const_t<T>* const_data_ptr() const {
    return data_ptr<std::remove_const_t<T>>();
  }
  template <class T>
  T* data() const {
    return data_ptr<T>();
  }
  Tensor data() const { return alias(); }
  Scalar item() const;
  template <class T>
  T item() const {
    return item().to<T>();
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const& {
    CheckDimension(N);
    return TensorAccessor<T, N>(data_ptr<T>(), sizes().data(), strides().data());
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() && = delete;
  template <class T, size_t N, template <typename> class P = DefaultPtrTraits, class I = int64_t>
  GenericPackedTensorAccessor<T, N, P, I> generic_packed_accessor() const& {
    CheckDimension(N);
    return GenericPackedTensorAccessor<T, N, P, I>(data_ptr<T>(), sizes().data(), strides().data());
  }
  template <class T, size_t N, template <typename> class P = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, P> packed_accessor32() const& {
    TORCH_CHECK(numel() <= std::numeric_limits<int32_t>::max(),
                "numel needs to be smaller than int32_t max; otherwise, please use "
                "packed_accessor64");
    return generic_packed_accessor<T, N, P, int32_t>();
  }
  template <class T, size_t N, template <typename> class P = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, P> packed_accessor32() && = delete;
  template <class T, size_t N, template <typename> class P = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, P> packed_accessor64() const& {
    return generic_packed_accessor<T, N, P, int64_t>();
  }
  template <class T, size_t N, template <typename> class P = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, P> packed_accessor64() && = delete;
  template <class T, size_t N, template <typename> class P = DefaultPtrTraits, class I = int64_t>
  GenericPackedTensorAccessor<T, N, P, I> packed_accessor() const& {
    return generic_packed_accessor<T, N, P, I>();
  }

  // Views.
  Tensor alias() const { return View(AsGeometry()); }
  Tensor detach() const { return alias(); }
  Tensor& detach_() { return *this; }
  Tensor variable_data() const { return alias(); }
  Tensor view(IntArrayRef size) const;
  Tensor view(ScalarType dtype) const;
  Tensor view_as(const Tensor& other) const { return view(other.sizes()); }
  Tensor reshape(IntArrayRef shape) const;
  Tensor reshape_as(const Tensor& other) const { return reshape(other.sizes()); }
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1) const;
  Tensor unflatten(int64_t dim, IntArrayRef sizes) const;
  Tensor ravel() const { return contiguous().view(-1); }
  Tensor squeeze() const;
  Tensor squeeze(int64_t dim) const;
  Tensor squeeze(IntArrayRef dim) const;
  Tensor unsqueeze(int64_t dim) const;
  Tensor t() const;
  Tensor transpose(int64_t dim0, int64_t dim1) const;
  Tensor swapaxes(int64_t axis0, int64_t axis1) const { return transpose(axis0, axis1); }
  Tensor swapdims(int64_t dim0, int64_t dim1) const { return transpose(dim0, dim1); }
  Tensor numpy_T() const;
  Tensor mT() const;
  Tensor permute(IntArrayRef dims) const;
  Tensor movedim(IntArrayRef source, IntArrayRef destination) const;
  Tensor movedim(int64_t source, int64_t destination) const;
  Tensor narrow(int64_t dim, int64_t start, int64_t length) const;
  Tensor select(int64_t dim, int64_t index) const;
  Tensor slice(int64_t dim = 0, optional<int64_t> start = nullopt, optional<int64_t> end = nullopt,
               int64_t step = 1) const;
  Tensor operator[](int64_t index) const { return select(0, index); }
  // With indices: indexing.h.
  Tensor index(ArrayRef<indexing::TensorIndex> indices) const;
  Tensor index(std::initializer_list<indexing::TensorIndex> indices) const;
  Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Tensor& values);
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& values);
  Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Scalar& value);
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar& value);
  Tensor expand(IntArrayRef size, bool implicit = false) const;
  Tensor expand_as(const Tensor& other) const { return expand(other.sizes()); }
  Tensor as_strided(IntArrayRef size, IntArrayRef stride,
                    optional<int64_t> storage_offset = nullopt) const;
  std::vector<Tensor> unbind(int64_t dim = 0) const;
  std::vector<Tensor> split(int64_t split_size, int64_t dim = 0) const;
  std::vector<Tensor> split(IntArrayRef split_sizes, int64_t dim = 0) const;
  std::vector<Tensor> split_with_sizes(IntArrayRef split_sizes, int64_t dim = 0) const;
  std::vector<Tensor> chunk(int64_t chunks, int64_t dim = 0) const;

  // Copies and fills.
  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  c10::MaybeOwned<Tensor> expect_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  Tensor clone(optional<MemoryFormat> format = nullopt) const;
  Tensor& copy_(const Tensor& source, bool non_blocking = false) const;
  Tensor& fill_(const Scalar& value) const;
  Tensor& zero_() const { return fill_(0); }
  Tensor& resize_(IntArrayRef size, optional<MemoryFormat> format = nullopt) const;
  Tensor& resize_as_(const Tensor& other) const { return resize_(other.sizes()); }
  Tensor to(TensorOptions options = {}, bool non_blocking = false, bool copy = false,
            optional<MemoryFormat> format = nullopt) const;
  Tensor to(optional<ScalarType> dtype, optional<Layout> layout, optional<Device> device,
            optional<bool> pin_memory, bool non_blocking, bool copy,
            optional<MemoryFormat> format) const;
  Tensor to(Device device, ScalarType dtype, bool non_blocking = false, bool copy = false,
            optional<MemoryFormat> format = nullopt) const;
  Tensor to(ScalarType dtype, bool non_blocking = false, bool copy = false,
            optional<MemoryFormat> format = nullopt) const;
  Tensor to(const Tensor& other, bool non_blocking = false, bool copy = false,
            optional<MemoryFormat> format = nullopt) const;
  Tensor toType(ScalarType type) const { return to(type); }
  Tensor type_as(const Tensor& other) const { return to(other.options()); }
  Tensor cuda() const { return to(Device(kCUDA)); }
  Tensor cpu() const { return to(Device(kCPU)); }
  Tensor pin_memory() const { return *this; }

  // New tensors with this one's options.
  Tensor new_empty(IntArrayRef size, TensorOptions options = {}) const;
  Tensor new_empty_strided(IntArrayRef size, IntArrayRef stride, TensorOptions options = {}) const;
  Tensor new_zeros(IntArrayRef size, TensorOptions options = {}) const;
  Tensor new_ones(IntArrayRef size, TensorOptions options = {}) const;
  Tensor new_full(IntArrayRef size, const Scalar& value, TensorOptions options = {}) const;

  // The shim's own members.
  const CupelTensor& d() const {
    if (!impl_) Undefined();
    return impl_->d;
  }
  Tensor View(const cupel::shim::Geometry& g) const;
  cupel::shim::Geometry AsGeometry() const;

  // Arithmetic: operators.h.
  Tensor& operator+=(const Tensor& other);
  Tensor& operator+=(const Scalar& other);
  Tensor& operator-=(const Tensor& other);
  Tensor& operator-=(const Scalar& other);
  Tensor& operator*=(const Tensor& other);
  Tensor& operator*=(const Scalar& other);
  Tensor& operator/=(const Tensor& other);
  Tensor& operator/=(const Scalar& other);
  Tensor& operator&=(const Tensor& other);
  Tensor& operator&=(const Scalar& other);
  Tensor& operator|=(const Tensor& other);
  Tensor& operator|=(const Scalar& other);
  Tensor& operator^=(const Tensor& other);
  Tensor& operator^=(const Scalar& other);
  // Printing needs the values.
  template <class C>
  friend std::basic_ostream<C>& operator<<(std::basic_ostream<C>&, const Tensor&) = delete;

 private:
  [[noreturn]] static void Undefined();
  int64_t Wrap(int64_t dim) const;
  void* Address() const;
  void* TypedAddress() const;
  void CheckType(ScalarType wanted) const;
  void CheckDimension(size_t n) const;

  cupel::shim::TensorImpl* impl_ = nullptr;
};

using TensorBase = Tensor;

}  // namespace at
