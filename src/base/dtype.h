// Element types, shared by tensors, plans and the shim's ABI (the numbers are part of that ABI).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cupel {

/// Numbered as PyTorch's c10::ScalarType, so that the shim and saved files need no translation.
enum class DType : int8_t {
  kU8 = 0,
  kI8 = 1,
  kI16 = 2,
  kI32 = 3,
  kI64 = 4,
  kF16 = 5,
  kF32 = 6,
  kF64 = 7,
  kBool = 11,
  kBF16 = 15,
};

/// Bytes of one element.
int SizeOf(DType dtype);
/// True for the four floating-point types.
bool IsFloating(DType dtype);
/// PyTorch's name: "float32", "bfloat16", "int64", "bool" …
std::string_view Name(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);
/// The unit roundoff u (half the spacing at 1): 2^-24 for float32. 0 for integer types.
double UnitRoundoff(DType dtype);
/// The smallest positive normal number; 0 for integer types.
double SmallestNormal(DType dtype);

/// Exact conversions of the 16-bit formats (round to nearest even when narrowing).
float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);
float BFloat16ToFloat(uint16_t bits);
uint16_t FloatToBFloat16(float value);

/// Reads element `index` of a packed array as double (int64 beyond 2^53 rounds).
double LoadAsDouble(DType dtype, const void* data, int64_t index);

}  // namespace cupel
