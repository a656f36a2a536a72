// caffe2::TypeMeta: what Tensor::dtype() returns. It compares with ScalarType on either side.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/ScalarType.h"

namespace caffe2 {

class TypeMeta final {
 public:
  TypeMeta() = default;
  static TypeMeta fromScalarType(c10::ScalarType type) {
    TypeMeta meta;
    meta.type_ = type;
    return meta;
  }
  template <class T>
  static TypeMeta Make() {
    return fromScalarType(c10::CppTypeToScalarType<T>::value);
  }
  c10::ScalarType toScalarType() const { return type_; }
  bool isScalarType() const { return type_ != c10::ScalarType::Undefined; }
  bool isScalarType(c10::ScalarType type) const { return type_ == type; }
  template <class T>
  bool Match() const {
    return type_ == c10::CppTypeToScalarType<T>::value;
  }
  size_t itemsize() const { return c10::elementSize(type_); }
#ifndef CUPEL_LEAN_STRING
  std::string_view name() const { return c10::CupelTypeName(type_); }
#endif

 private:
  c10::ScalarType type_ = c10::ScalarType::Undefined;
};

inline bool operator==(const TypeMeta& a, const TypeMeta& b) {
  return a.toScalarType() == b.toScalarType();
}
inline bool operator!=(const TypeMeta& a, const TypeMeta& b) { return !(a == b); }
inline bool operator==(const TypeMeta& a, c10::ScalarType b) { return a.toScalarType() == b; }
inline bool operator==(c10::ScalarType a, const TypeMeta& b) { return a == b.toScalarType(); }
inline bool operator!=(const TypeMeta& a, c10::ScalarType b) { return a.toScalarType() != b; }
inline bool operator!=(c10::ScalarType a, const TypeMeta& b) { return a != b.toScalarType(); }

inline void AppendText(cupel::shim::Text& text, const TypeMeta& meta) {
  text << c10::CupelTypeName(meta.toScalarType());
}
template <class C>
std::basic_ostream<C>& operator<<(std::basic_ostream<C>& out, const TypeMeta& meta) {
  return out << c10::CupelTypeName(meta.toScalarType());
}

}  // namespace caffe2

namespace c10 {
inline ScalarType typeMetaToScalarType(caffe2::TypeMeta meta) { return meta.toScalarType(); }
inline caffe2::TypeMeta scalarTypeToTypeMeta(ScalarType type) {
  return caffe2::TypeMeta::fromScalarType(type);
}
}  // namespace c10
