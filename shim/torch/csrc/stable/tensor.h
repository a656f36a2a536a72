// torch::stable::Tensor: an at::Tensor that has only the members of the stable ABI. Everything else
// is a function in torch/csrc/stable/ops.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/ATen.h"
#include "torch/csrc/stable/accelerator.h"
#include "torch/csrc/stable/c/shim.h"

namespace torch::stable {

class Tensor : private at::Tensor {
 public:
  Tensor() = default;
  explicit Tensor(at::Tensor tensor) : at::Tensor(std::move(tensor)) {}
  /// Takes the handle over.
  explicit Tensor(AtenTensorHandle handle) : at::Tensor(std::move(*handle)) { delete handle; }

  AtenTensorHandle get() const {
    return const_cast<at::Tensor*>(static_cast<const at::Tensor*>(this));
  }
  const at::Tensor& AsAten() const { return *this; }  // the shim's own

  using at::Tensor::const_data_ptr;
  using at::Tensor::defined;
  using at::Tensor::dim;
  using at::Tensor::is_cpu;
  using at::Tensor::is_cuda;
  using at::Tensor::layout;
  using at::Tensor::mutable_data_ptr;
  using at::Tensor::numel;
  using at::Tensor::scalar_type;
  using at::Tensor::size;
  using at::Tensor::sizes;
  using at::Tensor::storage_offset;
  using at::Tensor::stride;
  using at::Tensor::strides;
  void* data_ptr() const { return at::Tensor::data_ptr(); }
  bool is_contiguous() const { return at::Tensor::is_contiguous(); }
  Device device() const { return Device::Of(at::Tensor::device()); }
  int8_t get_device() const { return static_cast<int8_t>(at::Tensor::get_device()); }
  DeviceIndex get_device_index() const { return get_device(); }
  size_t element_size() const { return itemsize(); }
  const Tensor& set_requires_grad(bool) const { return *this; }
};

namespace detail {

/// A word of a boxed function's stack. A tensor's handle and the word of an optional belong to whom
/// they are passed.
template <class T>
struct Word {
  static_assert(sizeof(T) <= sizeof(StableIValue) && std::is_trivially_copyable_v<T>,
                "unsupported: a type on a boxed function's stack (use TORCH_BOX)");
  static StableIValue From(T value) {
    StableIValue word = 0;
    std::memcpy(&word, &value, sizeof(T));
    return word;
  }
  static T To(StableIValue word) {
    T value;
    std::memcpy(&value, &word, sizeof(T));
    return value;
  }
};
template <>
struct Word<Tensor> {
  static StableIValue From(const Tensor& tensor) {
    return reinterpret_cast<StableIValue>(new at::Tensor(tensor.AsAten()));
  }
  static Tensor To(StableIValue word) { return Tensor(reinterpret_cast<AtenTensorHandle>(word)); }
};
template <class T>
struct Word<std::optional<T>> {
  static StableIValue From(const std::optional<T>& value) {
    return value ? reinterpret_cast<StableIValue>(new StableIValue(Word<T>::From(*value))) : 0;
  }
  static std::optional<T> To(StableIValue word) {
    if (word == 0) return std::nullopt;
    auto* inner = reinterpret_cast<StableIValue*>(word);
    std::optional<T> value = Word<T>::To(*inner);
    delete inner;
    return value;
  }
};
template <>
struct Word<std::nullopt_t> {
  static StableIValue From(std::nullopt_t) { return 0; }
};

template <class T>
StableIValue from(const T& value) {
  return Word<T>::From(value);
}
template <class T>
T to(StableIValue word) {
  return Word<T>::To(word);
}

/// The word of an argument whose schema has this type. False if it has another one.
bool WordOf(const CupelValue& value, const char* type, size_t length, StableIValue* word);

}  // namespace detail
}  // namespace torch::stable

// As in PyTorch, also without a namespace.
using torch::stable::detail::from;
using torch::stable::detail::to;

namespace cupel::shim {

template <>
struct Caster<torch::stable::Tensor> {
  torch::stable::Tensor value;
  bool Load(const CupelValue& v, bool convert) {
    Caster<at::Tensor> inner;
    if (!inner.Load(v, convert)) return false;
    value = torch::stable::Tensor(std::move(inner.value));
    return true;
  }
  static void Name(Text& text) { Caster<at::Tensor>::Name(text); }
  static void Give(Arena& arena, CupelValue& out, const torch::stable::Tensor& tensor) {
    Caster<at::Tensor>::Give(arena, out, tensor.AsAten());
  }
};

}  // namespace cupel::shim

#if CUPEL_BODIES
namespace torch::stable::detail {
CUPEL_INLINE bool WordOf(const CupelValue& value, const char* type, size_t length,
                         StableIValue* word) {
  const auto is = [&](const char* name) {
    return std::strlen(name) == length && std::memcmp(name, type, length) == 0;
  };
  if (length > 0 && type[length - 1] == '?') {
    *word = 0;
    if (value.kind == CUPEL_NONE) return true;
    StableIValue inner = 0;
    if (!WordOf(value, type, length - 1, &inner)) return false;
    *word = reinterpret_cast<StableIValue>(new StableIValue(inner));
    return true;
  }
  if (is("Tensor")) {
    cupel::shim::Caster<Tensor> caster;
    if (!caster.Load(value, true)) return false;
    *word = from(caster.value);
    return true;
  }
  double number = 0;
  int64_t whole = 0;
  bool truth = false;
  if (is("int") || is("SymInt")) {
    if (!cupel::shim::LoadInteger(value, true, &whole)) return false;
    *word = from(whole);
  } else if (is("float")) {
    if (!cupel::shim::LoadDouble(value, true, &number)) return false;
    *word = from(number);
  } else if (is("bool")) {
    if (!cupel::shim::LoadBool(value, true, &truth)) return false;
    *word = from(truth);
  } else {
    cupel::shim::Refuse("unsupported_api", cupel::shim::Text()
                                               << "a boxed function of the stable ABI with a "
                                               << type << " (use TORCH_BOX)");
  }
  return true;
}
}  // namespace torch::stable::detail
#endif
