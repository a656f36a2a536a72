// AT_DISPATCH_V2: a dispatch over any list of types. AT_WRAP holds the lambda, AT_EXPAND a list.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/Dispatch.h"

#define AT_WRAP(...) __VA_ARGS__
#define AT_EXPAND(...) __VA_ARGS__
#define AT_FLOAT8_TYPES ::at::ScalarType::Float8_e5m2, ::at::ScalarType::Float8_e4m3fn
#define AT_BAREBONES_UNSIGNED_TYPES \
  ::at::ScalarType::UInt16, ::at::ScalarType::UInt32, ::at::ScalarType::UInt64
#define AT_INTEGRAL_TYPES_V2 AT_INTEGRAL_TYPES, AT_BAREBONES_UNSIGNED_TYPES
#define AT_COMPLEX_TYPES ::at::ScalarType::ComplexDouble, ::at::ScalarType::ComplexFloat
#define AT_QINT_TYPES ::at::ScalarType::QInt8, ::at::ScalarType::QUInt8, ::at::ScalarType::QInt32
#define AT_ALL_TYPES_AND_COMPLEX AT_ALL_TYPES, AT_COMPLEX_TYPES
#define AT_DISPATCH_V2(TYPE, NAME, BODY, ...) CUPEL_SWITCH(TYPE, NAME, (BODY), __VA_ARGS__)
