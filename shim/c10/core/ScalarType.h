// Element types with PyTorch's numbers and names. Every number of PyTorch has its name, so that
// messages are correct; storage exists for those that kernels use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/Exception.h"

namespace c10 {

struct Half;
struct BFloat16;
struct Float8_e5m2;
struct Float8_e4m3fn;
template <class T>
struct complex;  // c10/util/complex.h

// C++ type, enumerator, number
#define CUPEL_FORALL_TYPES(_)            \
  _(uint8_t, Byte, 0)                    \
  _(int8_t, Char, 1)                     \
  _(int16_t, Short, 2)                   \
  _(int, Int, 3)                         \
  _(int64_t, Long, 4)                    \
  _(::c10::Half, Half, 5)                \
  _(float, Float, 6)                     \
  _(double, Double, 7)                   \
  _(bool, Bool, 11)                      \
  _(::c10::BFloat16, BFloat16, 15)       \
  _(::c10::Float8_e5m2, Float8_e5m2, 23) \
  _(::c10::Float8_e4m3fn, Float8_e4m3fn, 24)

enum class ScalarType : int8_t {
#define CUPEL_ENUMERATOR(type, name, number) name = number,
  CUPEL_FORALL_TYPES(CUPEL_ENUMERATOR)
#undef CUPEL_ENUMERATOR
      ComplexHalf = 8,
  ComplexFloat = 9,
  ComplexDouble = 10,
  QInt8 = 12,
  QUInt8 = 13,
  QInt32 = 14,
  QUInt4x2 = 16,
  QUInt2x4 = 17,
  Bits1x8 = 18,
  Bits2x4 = 19,
  Bits4x2 = 20,
  Bits8 = 21,
  Bits16 = 22,
  Float8_e5m2fnuz = 25,
  Float8_e4m3fnuz = 26,
  UInt16 = 27,
  UInt32 = 28,
  UInt64 = 29,
  Undefined = 45,
  NumOptions = 46
};

#define CUPEL_CONSTANT(type, name, number) constexpr ScalarType k##name = ScalarType::name;
CUPEL_FORALL_TYPES(CUPEL_CONSTANT)
#undef CUPEL_CONSTANT
constexpr ScalarType kComplexHalf = ScalarType::ComplexHalf;
constexpr ScalarType kComplexFloat = ScalarType::ComplexFloat;
constexpr ScalarType kComplexDouble = ScalarType::ComplexDouble;
constexpr ScalarType kUInt16 = ScalarType::UInt16;
constexpr ScalarType kUInt32 = ScalarType::UInt32;
constexpr ScalarType kUInt64 = ScalarType::UInt64;

template <class T>
struct CppTypeToScalarType;
namespace impl {
template <ScalarType>
struct ScalarTypeToCPPType;
template <ScalarType N>
using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<N>::type;
}  // namespace impl

#define CUPEL_MAPPING(cpp, name, number)                                                     \
  template <>                                                                                \
  struct CppTypeToScalarType<cpp> : std::integral_constant<ScalarType, ScalarType::name> {}; \
  namespace impl {                                                                           \
  template <>                                                                                \
  struct ScalarTypeToCPPType<ScalarType::name> {                                             \
    using type = cpp;                                                                        \
  };                                                                                         \
  }
CUPEL_FORALL_TYPES(CUPEL_MAPPING)
// Code may name these, although there are no tensors of them (elementSize).
CUPEL_MAPPING(uint16_t, UInt16, 27)
CUPEL_MAPPING(uint32_t, UInt32, 28)
CUPEL_MAPPING(uint64_t, UInt64, 29)
#undef CUPEL_MAPPING

const char* toString(ScalarType type);
/// Bytes of one element; 0 if the shim has no storage for the type.
size_t elementSize(ScalarType type);
/// The C++ name that caffe2::TypeMeta prints ("float", "c10::Half").
const char* CupelTypeName(ScalarType type);

inline bool isIntegralType(ScalarType t, bool include_bool) {
  return (t >= ScalarType::Byte && t <= ScalarType::Long) ||
         (t >= ScalarType::UInt16 && t <= ScalarType::UInt64) ||
         (include_bool && t == ScalarType::Bool);
}
inline bool isReducedFloatingType(ScalarType t) {
  return t == ScalarType::Half || t == ScalarType::BFloat16;
}
inline bool isFloatingType(ScalarType t) {
  return t == ScalarType::Float || t == ScalarType::Double || isReducedFloatingType(t) ||
         (t >= ScalarType::Float8_e5m2 && t <= ScalarType::Float8_e4m3fnuz);
}
inline bool isComplexType(ScalarType t) {
  return t >= ScalarType::ComplexHalf && t <= ScalarType::ComplexDouble;
}

#if CUPEL_BODIES
CUPEL_INLINE const char* toString(ScalarType type) {
  switch (type) {
#define CUPEL_NAME(cpp, name, number) \
  case ScalarType::name:              \
    return #name;
    CUPEL_FORALL_TYPES(CUPEL_NAME)
    CUPEL_NAME(, ComplexHalf, )
    CUPEL_NAME(, ComplexFloat, )
    CUPEL_NAME(, ComplexDouble, )
    CUPEL_NAME(, UInt16, )
    CUPEL_NAME(, UInt32, )
    CUPEL_NAME(, UInt64, )
    CUPEL_NAME(, Undefined, )
#undef CUPEL_NAME
    default:
      return "UNKNOWN_SCALAR";
  }
}
CUPEL_INLINE size_t elementSize(ScalarType type) {
  switch (type) {
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Bool:
    case ScalarType::Float8_e5m2:
    case ScalarType::Float8_e4m3fn:
      return 1;
    case ScalarType::Short:
    case ScalarType::Half:
    case ScalarType::BFloat16:
      return 2;
    case ScalarType::Int:
    case ScalarType::Float:
      return 4;
    case ScalarType::Long:
    case ScalarType::Double:
      return 8;
    default:
      return 0;
  }
}
CUPEL_INLINE const char* CupelTypeName(ScalarType type) {
  switch (type) {
    case ScalarType::Byte:
      return "unsigned char";
    case ScalarType::Char:
      return "signed char";
    case ScalarType::Short:
      return "short int";
    case ScalarType::Long:
      return "long int";
    case ScalarType::Half:
      return "c10::Half";
    case ScalarType::BFloat16:
      return "c10::BFloat16";
    case ScalarType::Float8_e5m2:
      return "c10::Float8_e5m2";
    case ScalarType::Float8_e4m3fn:
      return "c10::Float8_e4m3fn";
    case ScalarType::Int:
      return "int";
    case ScalarType::Float:
      return "float";
    case ScalarType::Double:
      return "double";
    case ScalarType::Bool:
      return "bool";
    default:
      return toString(type);
  }
}
#endif

inline void AppendText(cupel::shim::Text& text, ScalarType type) { text << toString(type); }
template <class C>
std::basic_ostream<C>& operator<<(std::basic_ostream<C>& out, ScalarType type) {
  return out << toString(type);
}

}  // namespace c10
