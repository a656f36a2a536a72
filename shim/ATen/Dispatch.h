// AT_DISPATCH_*: runs a lambda with scalar_t set to the C++ type of a dtype. The shim has no
// storage for complex, quantized and bit types: the forms for these types have no cases, and such
// a tensor gets the same "not implemented" as any other missing type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/BFloat16.h"
#include "c10/util/Half.h"
#include "cupel/tensor.h"

namespace cupel::shim {
inline c10::ScalarType DispatchType(c10::ScalarType type) { return type; }
inline c10::ScalarType DispatchType(const at::DeprecatedTypeProperties& type) {
  return type.scalarType();
}
[[noreturn]] void NoCase(const char* name, c10::ScalarType type);
#if CUPEL_BODIES
CUPEL_INLINE void NoCase(const char* name, c10::ScalarType type) {
  Throw<c10::NotImplementedError>(Text() << '"' << name << "\" not implemented for '"
                                         << c10::toString(type) << "'");
}
#endif

/// The C++ type of a case. A type without storage compiles as float and never runs.
template <c10::ScalarType N, class = void>
struct CaseType {
  using Type = float;
  static constexpr bool kExists = false;
};
template <c10::ScalarType N>
struct CaseType<N, std::void_t<c10::impl::ScalarTypeToCPPTypeT<N>>> {
  using Type = c10::impl::ScalarTypeToCPPTypeT<N>;
  static constexpr bool kExists = true;
};
}  // namespace cupel::shim

#define AT_DISPATCH_CASE_TMPL_(type, hint, ...)                                           \
  case type: {                                                                            \
    using hint [[maybe_unused]] = ::cupel::shim::CaseType<type>::Type;                    \
    if (!::cupel::shim::CaseType<type>::kExists) ::cupel::shim::NoCase("a kernel", type); \
    return __VA_ARGS__();                                                                 \
  }
#define AT_PRIVATE_CASE_TYPE_USING_HINT(type, hint, ...) \
  AT_DISPATCH_CASE_TMPL_(type, hint, __VA_ARGS__)
#define AT_PRIVATE_CASE_TYPE(name, type, ...) AT_DISPATCH_CASE(type, __VA_ARGS__)
#define AT_DISPATCH_CASE(type, ...) AT_DISPATCH_CASE_TMPL_(type, scalar_t, __VA_ARGS__)

#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                         \
  [&] {                                                             \
    const ::at::ScalarType _st = ::cupel::shim::DispatchType(TYPE); \
    constexpr const char* at_dispatch_name [[maybe_unused]] = NAME; \
    switch (_st) {                                                  \
      __VA_ARGS__                                                   \
      default:                                                      \
        ::cupel::shim::NoCase(at_dispatch_name, _st);               \
    }                                                               \
  }()

// CUPEL_CASES((body), T1, T2 ...): a case for each type, at most 64. The body is in parentheses,
// since it may contain commas. CUPEL_BODY and CUPEL_UNWRAP do the same, but a macro does not expand
// within itself.
#define CUPEL_PARENTHESES ()
#define CUPEL_UNWRAP(...) __VA_ARGS__
#define CUPEL_SCAN_4(...) CUPEL_UNWRAP(CUPEL_UNWRAP(CUPEL_UNWRAP(CUPEL_UNWRAP(__VA_ARGS__))))
#define CUPEL_SCAN_16(...) CUPEL_SCAN_4(CUPEL_SCAN_4(CUPEL_SCAN_4(CUPEL_SCAN_4(__VA_ARGS__))))
#define CUPEL_SCAN(...) CUPEL_SCAN_16(CUPEL_SCAN_16(CUPEL_SCAN_16(CUPEL_SCAN_16(__VA_ARGS__))))
#define CUPEL_CASES_AGAIN() CUPEL_CASES_FROM
#define CUPEL_CASES_FROM(body, type, ...) \
  AT_DISPATCH_CASE(type, CUPEL_BODY body) \
  __VA_OPT__(CUPEL_CASES_AGAIN CUPEL_PARENTHESES(body, __VA_ARGS__))
#define CUPEL_BODY(...) __VA_ARGS__
#define CUPEL_CASES(body, ...) CUPEL_SCAN(CUPEL_CASES_FROM(body, __VA_ARGS__))
#define CUPEL_SWITCH(TYPE, NAME, body, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, CUPEL_CASES(body, __VA_ARGS__))

#define AT_FLOATING_TYPES ::at::ScalarType::Double, ::at::ScalarType::Float
#define AT_INTEGRAL_TYPES                                                                        \
  ::at::ScalarType::Byte, ::at::ScalarType::Char, ::at::ScalarType::Int, ::at::ScalarType::Long, \
      ::at::ScalarType::Short
#define AT_ALL_TYPES AT_INTEGRAL_TYPES, AT_FLOATING_TYPES
#define AT_REDUCED_FLOATING_TYPES ::at::ScalarType::Half, ::at::ScalarType::BFloat16

// clang-format off: one line for each macro
#define AT_DISPATCH_CASE_FLOATING_TYPES(...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES)
#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES, ::at::ScalarType::Half)
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES, ::at::ScalarType::Half)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND(T1, ...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES, T1)
#define AT_DISPATCH_FLOATING_TYPES_AND(T1, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES, T1)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND2(T1, T2, ...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES, T1, T2)
#define AT_DISPATCH_FLOATING_TYPES_AND2(T1, T2, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES, T1, T2)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND3(T1, T2, T3, ...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3)
#define AT_DISPATCH_FLOATING_TYPES_AND3(T1, T2, T3, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND4(T1, T2, T3, T4, ...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3, T4)
#define AT_DISPATCH_FLOATING_TYPES_AND4(T1, T2, T3, T4, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3, T4)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND5(T1, T2, T3, T4, T5, ...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3, T4, T5)
#define AT_DISPATCH_FLOATING_TYPES_AND5(T1, T2, T3, T4, T5, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3, T4, T5)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND6(T1, T2, T3, T4, T5, T6, ...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3, T4, T5, T6)
#define AT_DISPATCH_FLOATING_TYPES_AND6(T1, T2, T3, T4, T5, T6, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3, T4, T5, T6)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(...) CUPEL_CASES((__VA_ARGS__), AT_REDUCED_FLOATING_TYPES)
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_REDUCED_FLOATING_TYPES)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES_AND(T1, ...) CUPEL_CASES((__VA_ARGS__), AT_REDUCED_FLOATING_TYPES, T1)
#define AT_DISPATCH_REDUCED_FLOATING_TYPES_AND(T1, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_REDUCED_FLOATING_TYPES, T1)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...) CUPEL_CASES((__VA_ARGS__), AT_INTEGRAL_TYPES)
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_INTEGRAL_TYPES)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES_AND(T1, ...) CUPEL_CASES((__VA_ARGS__), AT_INTEGRAL_TYPES, T1)
#define AT_DISPATCH_INTEGRAL_TYPES_AND(T1, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_INTEGRAL_TYPES, T1)
#define AT_DISPATCH_CASE_ALL_TYPES(...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES)
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_HALF(...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, ::at::ScalarType::Half)
#define AT_DISPATCH_ALL_TYPES_AND_HALF(TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, ::at::ScalarType::Half)
#define AT_DISPATCH_CASE_ALL_TYPES_AND(T1, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1)
#define AT_DISPATCH_ALL_TYPES_AND(T1, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1)
#define AT_DISPATCH_CASE_ALL_TYPES_AND2(T1, T2, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1, T2)
#define AT_DISPATCH_ALL_TYPES_AND2(T1, T2, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1, T2)
#define AT_DISPATCH_CASE_ALL_TYPES_AND3(T1, T2, T3, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3)
#define AT_DISPATCH_ALL_TYPES_AND3(T1, T2, T3, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3)
#define AT_DISPATCH_CASE_ALL_TYPES_AND4(T1, T2, T3, T4, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4)
#define AT_DISPATCH_ALL_TYPES_AND4(T1, T2, T3, T4, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4)
#define AT_DISPATCH_CASE_ALL_TYPES_AND5(T1, T2, T3, T4, T5, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5)
#define AT_DISPATCH_ALL_TYPES_AND5(T1, T2, T3, T4, T5, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5)
#define AT_DISPATCH_CASE_ALL_TYPES_AND6(T1, T2, T3, T4, T5, T6, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5, T6)
#define AT_DISPATCH_ALL_TYPES_AND6(T1, T2, T3, T4, T5, T6, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5, T6)
#define AT_DISPATCH_CASE_ALL_TYPES_AND7(T1, T2, T3, T4, T5, T6, T7, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5, T6, T7)
#define AT_DISPATCH_ALL_TYPES_AND7(T1, T2, T3, T4, T5, T6, T7, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5, T6, T7)
#define AT_DISPATCH_CASE_ALL_TYPES_AND8(T1, T2, T3, T4, T5, T6, T7, T8, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5, T6, T7, T8)
#define AT_DISPATCH_ALL_TYPES_AND8(T1, T2, T3, T4, T5, T6, T7, T8, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5, T6, T7, T8)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND(T1, ...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES, T1)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND(T1, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES, T1)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND1(T1, ...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES, T1)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND1(T1, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES, T1)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND2(T1, T2, ...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES, T1, T2)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(T1, T2, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES, T1, T2)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND3(T1, T2, T3, ...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND3(T1, T2, T3, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND4(T1, T2, T3, T4, ...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3, T4)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND4(T1, T2, T3, T4, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3, T4)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND5(T1, T2, T3, T4, T5, ...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3, T4, T5)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND5(T1, T2, T3, T4, T5, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3, T4, T5)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND6(T1, T2, T3, T4, T5, T6, ...) CUPEL_CASES((__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3, T4, T5, T6)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND6(T1, T2, T3, T4, T5, T6, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_FLOATING_TYPES, T1, T2, T3, T4, T5, T6)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX(TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND(T1, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND(T1, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND2(T1, T2, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1, T2)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND2(T1, T2, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1, T2)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND3(T1, T2, T3, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(T1, T2, T3, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND4(T1, T2, T3, T4, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND4(T1, T2, T3, T4, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND5(T1, T2, T3, T4, T5, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND5(T1, T2, T3, T4, T5, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND6(T1, T2, T3, T4, T5, T6, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5, T6)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND6(T1, T2, T3, T4, T5, T6, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5, T6)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND7(T1, T2, T3, T4, T5, T6, T7, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5, T6, T7)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND7(T1, T2, T3, T4, T5, T6, T7, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5, T6, T7)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND8(T1, T2, T3, T4, T5, T6, T7, T8, ...) CUPEL_CASES((__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5, T6, T7, T8)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND8(T1, T2, T3, T4, T5, T6, T7, T8, TYPE, NAME, ...) CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), AT_ALL_TYPES, T1, T2, T3, T4, T5, T6, T7, T8)
// clang-format on

#define AT_DISPATCH_CASE_COMPLEX_TYPES(...)
#define AT_DISPATCH_COMPLEX_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, )
#define AT_DISPATCH_CASE_COMPLEX_TYPES_AND(T1, ...) AT_DISPATCH_CASE(T1, __VA_ARGS__)
#define AT_DISPATCH_COMPLEX_TYPES_AND(T1, TYPE, NAME, ...) \
  CUPEL_SWITCH(TYPE, NAME, (__VA_ARGS__), T1)
#define AT_DISPATCH_CASE_QINT_TYPES(...)
#define AT_DISPATCH_QINT_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, )
#define AT_DISPATCH_CASE_BIT_TYPES(...)
#define AT_DISPATCH_BIT_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, )
#define AT_DISPATCH_INDEX_TYPES(TYPE, NAME, ...)                                         \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                         \
                     AT_DISPATCH_CASE_TMPL_(::at::ScalarType::Int, index_t, __VA_ARGS__) \
                         AT_DISPATCH_CASE_TMPL_(::at::ScalarType::Long, index_t, __VA_ARGS__))
