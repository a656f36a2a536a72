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
  kF8E5M2 = 23,
  kF8E4M3 = 24,  // PyTorch's float8_e4m3fn: NaN, but no infinity
};

/// Bytes of one element.
int SizeOf(DType dtype);
/// True for the floating-point types.
bool IsFloating(DType dtype);
/// True for the two floating-point types of 8 bits.
bool IsFloat8(DType dtype);
/// PyTorch's name: "float32", "bfloat16", "int64", "float8_e4m3fn" …
std::string_view Name(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);
/// The unit roundoff u (half the spacing at 1): 2^-24 for float32. 0 for integer types.
double UnitRoundoff(DType dtype);
/// The smallest positive normal number; 0 for integer types.
double SmallestNormal(DType dtype);
/// The largest finite number; 0 for integer types.
double LargestFinite(DType dtype);
/// Half the distance from `value`, a number of the floating-point type, to its neighbour away from
/// zero, or toward zero. What lies closer is rounded to `value`. At the largest finite number, the
/// neighbour is where the next one would be.
double HalfStep(DType dtype, double value, bool away);

/// Exact conversions of the 16-bit and 8-bit formats (round to nearest even when narrowing).
float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);
float BFloat16ToFloat(uint16_t bits);
uint16_t FloatToBFloat16(float value);
/// `dtype` is a float8 type.
float Float8ToFloat(DType dtype, uint8_t bits);
/// Too large numbers become infinite in float8_e5m2, and the largest finite number in
/// float8_e4m3fn, as in PyTorch 2.13. Older versions of PyTorch make them NaN in float8_e4m3fn.
uint8_t FloatToFloat8(DType dtype, float value);

/// Reads element `index` of a packed array as double (int64 beyond 2^53 rounds).
double LoadAsDouble(DType dtype, const void* data, int64_t index);

}  // namespace cupel
