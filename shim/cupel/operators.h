// Operators of PyTorch, which PyTorch executes between the candidate's kernels. Arithmetic on
// tensors is declared here. All other operators that a source names are declared in two files that
// cupel generates from the schemas of the user's PyTorch (src/build/operators.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/caster.h"

namespace cupel::shim {

/// The arguments of a call in the recorder's form. Borrows tensors and texts.
class OperatorArguments {
 public:
  void Add(const at::Tensor& tensor) { Store(Of(tensor)); }
  void Add(c10::nullopt_t) { Store({}); }
  void Add(const c10::Scalar& value) {
    CupelValue v = {};
    Caster<c10::Scalar>::Give(arena_, v, value);
    Store(v);
  }
  void Add(c10::Device device) {
    CupelValue v = {};
    v.kind = CUPEL_STRING;
    v.s = device.is_cuda() ? "cuda" : "cpu";
    v.count = static_cast<int32_t>(std::strlen(v.s));
    Store(v);
  }
#ifndef CUPEL_LEAN_STRING
  void Add(std::string_view text) {
    CupelValue v = {};
    v.kind = CUPEL_STRING;
    v.s = text.data();
    v.count = static_cast<int32_t>(text.size());
    Store(v);
  }
#endif
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>>>
  void Add(T value) {
    if constexpr (std::is_enum_v<T>) {
      Add(c10::Scalar(static_cast<int64_t>(value)));
    } else {
      Add(c10::Scalar(value));
    }
  }
  template <class T>
  void Add(const c10::optional<T>& value) {
    value ? Add(*value) : Add(c10::nullopt);
  }
  void Add(const c10::OptionalArrayRef<int64_t>& list) {
    list.has_value() ? Add(list.value()) : Add(c10::nullopt);
  }
  template <class T>
  void Add(c10::ArrayRef<T> list) {
    CupelValue v = {};
    v.kind = CUPEL_TUPLE;
    v.count = static_cast<int32_t>(list.size());
    CupelValue* items = arena_.Items(list.size());
    for (size_t i = 0; i < list.size(); ++i) items[i] = Item(list[i]);
    v.items = items;
    Store(v);
  }

  const std::vector<CupelValue>& values() const { return values_; }
  /// The tensors, depth first.
  const std::vector<const at::Tensor*>& tensors() const { return tensors_; }

 private:
  void Store(const CupelValue& value) { values_.push_back(value); }
  CupelValue Of(const at::Tensor& tensor) {
    CupelValue v = {};
    Caster<at::Tensor>::Give(arena_, v, tensor);
    if (tensor.defined()) tensors_.push_back(&tensor);
    return v;
  }
  template <class T>
  CupelValue Item(const T& item) {
    Add(item);
    CupelValue v = values_.back();
    values_.pop_back();
    return v;
  }

  Arena arena_;
  std::vector<CupelValue> values_;
  std::vector<const at::Tensor*> tensors_;
};

/// Calls an operator and returns its results.
std::vector<at::Tensor> CallOperator(const char* name, const OperatorArguments& arguments);

template <class R>
struct OperatorResult;
template <>
struct OperatorResult<at::Tensor> {
  static at::Tensor Take(std::vector<at::Tensor>&& results) { return results.at(0); }
};
template <>
struct OperatorResult<std::vector<at::Tensor>> {
  static std::vector<at::Tensor> Take(std::vector<at::Tensor>&& results) {
    return std::move(results);
  }
};
template <class... T>
struct OperatorResult<std::tuple<T...>> {
  template <size_t... I>
  static std::tuple<T...> All(std::vector<at::Tensor>& results, std::index_sequence<I...>) {
    return std::tuple<T...>(results.at(I)...);
  }
  static std::tuple<T...> Take(std::vector<at::Tensor>&& results) {
    return All(results, std::index_sequence_for<T...>());
  }
};

template <class R, class... A>
R CallOperator(const char* name, const A&... values) {
  OperatorArguments arguments;
  (arguments.Add(values), ...);
  return OperatorResult<R>::Take(CallOperator(name, arguments));
}

#if CUPEL_BODIES
struct OperatorCall {
  const OperatorArguments* arguments;
  std::vector<at::Tensor> results;
};
CUPEL_INLINE const CupelTensor* TakeOperatorResult(void* context, const CupelTensor* shape,
                                                   int32_t shares) {
  OperatorCall& call = *static_cast<OperatorCall*>(context);
  Geometry g;
  for (int i = 0; i < shape->ndim; ++i) g.Add(shape->sizes[i], shape->strides[i]);
  Storage* storage = nullptr;
  if (shares >= 0) {
    storage =
        call.arguments->tensors().at(static_cast<size_t>(shares))->unsafeGetTensorImpl()->storage;
    ++storage->references;
    g.offset = shape->offset;
  } else {
    storage = NewStorage(true, shape->storage_bytes);
  }
  call.results.push_back(at::Tensor(NewImpl(storage, g, shape->dtype)));
  return &call.results.back().d();
}
CUPEL_INLINE std::vector<at::Tensor> CallOperator(const char* name,
                                                  const OperatorArguments& arguments) {
  OperatorCall call{&arguments, {}};
  call.results.reserve(1024);  // the recorder holds pointers to descriptions, not to elements
  cupel_rt_operator(name, arguments.values().data(),
                    static_cast<int32_t>(arguments.values().size()), TakeOperatorResult, &call);
  return std::move(call.results);
}
#endif

}  // namespace cupel::shim

namespace at {

// With C++ operators.
#define CUPEL_BINARY(op, name)                                               \
  inline Tensor operator op(const Tensor& a, const Tensor& b) {              \
    return cupel::shim::CallOperator<Tensor>("aten::" name ".Tensor", a, b); \
  }                                                                          \
  inline Tensor operator op(const Tensor& a, const Scalar& b) {              \
    return cupel::shim::CallOperator<Tensor>("aten::" name ".Scalar", a, b); \
  }
// `swapped`: the operator with its operands exchanged.
#define CUPEL_COMPARISON(op, name, swapped)                                     \
  CUPEL_BINARY(op, name)                                                        \
  inline Tensor operator op(const Scalar& a, const Tensor& b) {                 \
    return cupel::shim::CallOperator<Tensor>("aten::" swapped ".Scalar", b, a); \
  }
#define CUPEL_WITH_ALPHA(op, name)                                              \
  inline Tensor operator op(const Tensor& a, const Tensor& b) {                 \
    return cupel::shim::CallOperator<Tensor>("aten::" name ".Tensor", a, b, 1); \
  }                                                                             \
  inline Tensor operator op(const Tensor& a, const Scalar& b) {                 \
    return cupel::shim::CallOperator<Tensor>("aten::" name ".Scalar", a, b, 1); \
  }
CUPEL_WITH_ALPHA(+, "add")
CUPEL_WITH_ALPHA(-, "sub")
inline Tensor operator+(const Scalar& a, const Tensor& b) { return b + a; }
inline Tensor operator-(const Scalar& a, const Tensor& b) {
  return cupel::shim::CallOperator<Tensor>("aten::rsub.Scalar", b, a, 1);
}
CUPEL_BINARY(*, "mul")
CUPEL_BINARY(/, "div")
CUPEL_BINARY(%, "remainder")
inline Tensor operator*(const Scalar& a, const Tensor& b) { return b * a; }
inline Tensor operator/(const Scalar& a, const Tensor& b) {
  return cupel::shim::CallOperator<Tensor>("aten::reciprocal", b) * a;
}
inline Tensor operator%(const Scalar& a, const Tensor& b) {
  return cupel::shim::CallOperator<Tensor>("aten::remainder.Scalar_Tensor", a, b);
}
CUPEL_COMPARISON(&, "bitwise_and", "bitwise_and")
CUPEL_COMPARISON(|, "bitwise_or", "bitwise_or")
CUPEL_COMPARISON(^, "bitwise_xor", "bitwise_xor")
CUPEL_COMPARISON(<, "lt", "gt")
CUPEL_COMPARISON(<=, "le", "ge")
CUPEL_COMPARISON(>, "gt", "lt")
CUPEL_COMPARISON(>=, "ge", "le")
CUPEL_COMPARISON(==, "eq", "eq")
CUPEL_COMPARISON(!=, "ne", "ne")
#undef CUPEL_BINARY
#undef CUPEL_COMPARISON
#undef CUPEL_WITH_ALPHA

inline Tensor operator-(const Tensor& a) {
  return cupel::shim::CallOperator<Tensor>("aten::neg", a);
}
inline Tensor operator~(const Tensor& a) {
  return cupel::shim::CallOperator<Tensor>("aten::bitwise_not", a);
}
inline Tensor operator!(const Tensor& a) {
  return cupel::shim::CallOperator<Tensor>("aten::logical_not", a);
}

#define CUPEL_ASSIGNMENT(op, name, ...)                                                   \
  inline Tensor& Tensor::operator op(const Tensor & other) {                              \
    cupel::shim::CallOperator<Tensor>("aten::" name ".Tensor", *this, other __VA_ARGS__); \
    return *this;                                                                         \
  }                                                                                       \
  inline Tensor& Tensor::operator op(const Scalar & other) {                              \
    cupel::shim::CallOperator<Tensor>("aten::" name ".Scalar", *this, other __VA_ARGS__); \
    return *this;                                                                         \
  }
CUPEL_ASSIGNMENT(+=, "add_", , 1)
CUPEL_ASSIGNMENT(-=, "sub_", , 1)
CUPEL_ASSIGNMENT(*=, "mul_", )
CUPEL_ASSIGNMENT(/=, "div_", )
CUPEL_ASSIGNMENT(&=, "bitwise_and_", )
CUPEL_ASSIGNMENT(|=, "bitwise_or_", )
CUPEL_ASSIGNMENT(^=, "bitwise_xor_", )
#undef CUPEL_ASSIGNMENT

// Functions of at itself hide those of their names.
#if __has_include(<cupel_generated/functions.h>)
namespace operators {
#include <cupel_generated/functions.h>
}
using namespace operators;  // NOLINT: for at::sum
#endif

}  // namespace at

#if __has_include(<cupel_generated/functions.h>)
#include "torch/nn/functional.h"
#endif
