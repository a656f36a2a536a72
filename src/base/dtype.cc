// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace cupel {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int size;
  double roundoff;
  double smallest_normal;
  double largest;
};

constexpr std::array<Row, 12> kRows = {{
    {DType::kU8, "uint8", 1, 0, 0, 0},
    {DType::kI8, "int8", 1, 0, 0, 0},
    {DType::kI16, "int16", 2, 0, 0, 0},
    {DType::kI32, "int32", 4, 0, 0, 0},
    {DType::kI64, "int64", 8, 0, 0, 0},
    {DType::kF16, "float16", 2, 0x1p-11, 0x1p-14, 65504},
    {DType::kF32, "float32", 4, 0x1p-24, 0x1p-126, 0x1.fffffep127},
    {DType::kF64, "float64", 8, 0x1p-53, 0x1p-1022, std::numeric_limits<double>::max()},
    {DType::kBool, "bool", 1, 0, 0, 0},
    {DType::kBF16, "bfloat16", 2, 0x1p-8, 0x1p-126, 0x1.fep127},
    {DType::kF8E5M2, "float8_e5m2", 1, 0x1p-3, 0x1p-14, 57344},
    {DType::kF8E4M3, "float8_e4m3fn", 1, 0x1p-4, 0x1p-6, 448},
}};

/// The layout of a float8 type, and the bits of its largest finite number, infinity and NaN.
struct Format8 {
  int digits, bias;
  uint8_t largest, overflow, nan;
};
constexpr Format8 kE5M2{2, 15, 0x7b, 0x7c, 0x7f};
constexpr Format8 kE4M3{3, 7, 0x7e, 0x7e, 0x7f};
constexpr const Format8& FormatOf(DType dtype) { return dtype == DType::kF8E5M2 ? kE5M2 : kE4M3; }

const Row& Find(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row;
  }
  return kRows[0];
}

template <typename T>
T Load(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

}  // namespace

int SizeOf(DType dtype) { return Find(dtype).size; }
bool IsFloating(DType dtype) { return Find(dtype).roundoff != 0; }
std::string_view Name(DType dtype) { return Find(dtype).name; }
double UnitRoundoff(DType dtype) { return Find(dtype).roundoff; }
double SmallestNormal(DType dtype) { return Find(dtype).smallest_normal; }
double LargestFinite(DType dtype) { return Find(dtype).largest; }
bool IsFloat8(DType dtype) { return dtype == DType::kF8E5M2 || dtype == DType::kF8E4M3; }

double HalfStep(DType dtype, double value, bool away) {
  const Row& row = Find(dtype);
  const double magnitude = std::fabs(value);
  if (magnitude <= row.smallest_normal && !(away && magnitude == row.smallest_normal)) {
    return row.roundoff * row.smallest_normal;
  }
  int exponent = 0;
  const bool is_power = std::frexp(magnitude, &exponent) == 0.5;
  const double half = std::ldexp(row.roundoff, exponent - 1);
  return is_power && !away ? half / 2 : half;
}

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 31;
  const uint32_t mantissa = bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000u)
    return sign | 0x7e00 | static_cast<uint16_t>((magnitude >> 13) & 1023);
  if (magnitude >= 0x477ff000u) return sign | 0x7c00;  // rounds to 65536 or more
  if (magnitude >= 0x38800000u) {
    const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  // Subnormal: adding 0.5 places the unit in the last place at 2^-24 and rounds to nearest even.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
}

float BFloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float Float8ToFloat(DType dtype, uint8_t bits) {
  const Format8& format = FormatOf(dtype);
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80) << 24;
  const uint32_t magnitude = bits & 0x7fu;
  if (magnitude > format.overflow) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (magnitude > format.largest) return std::bit_cast<float>(sign | 0x7f800000u);
  const int shift = 23 - format.digits;
  if (magnitude >> format.digits != 0) {
    const auto rebias = static_cast<uint32_t>(127 - format.bias) << 23;
    return std::bit_cast<float>(sign | ((magnitude << shift) + rebias));
  }
  const float value = std::ldexp(static_cast<float>(magnitude), 1 - format.bias - format.digits);
  return sign != 0 ? -value : value;
}

uint8_t FloatToFloat8(DType dtype, float value) {
  const Format8& format = FormatOf(dtype);
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000u) return sign | format.nan;
  const int shift = 23 - format.digits;
  const auto rebias = static_cast<uint32_t>(127 - format.bias) << 23;
  uint32_t result = 0;
  if (magnitude < rebias + (1u << 23)) {
    // Subnormal: this sum has its unit in the last place at that of the format.
    const float magic = std::ldexp(1.0f, 24 - format.bias - format.digits);
    result = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + magic) -
             std::bit_cast<uint32_t>(magic);
  } else {
    const uint32_t half = (1u << (shift - 1)) - 1;
    result = (magnitude - rebias + half + ((magnitude >> shift) & 1)) >> shift;
  }
  return sign | static_cast<uint8_t>(result > format.largest ? format.overflow : result);
}

double LoadAsDouble(DType dtype, const void* data, int64_t index) {
  switch (dtype) {
    case DType::kU8:
      return Load<uint8_t>(data, index);
    case DType::kI8:
      return Load<int8_t>(data, index);
    case DType::kI16:
      return Load<int16_t>(data, index);
    case DType::kI32:
      return Load<int32_t>(data, index);
    case DType::kI64:
      return static_cast<double>(Load<int64_t>(data, index));
    case DType::kF16:
      return HalfToFloat(Load<uint16_t>(data, index));
    case DType::kF32:
      return Load<float>(data, index);
    case DType::kF64:
      return Load<double>(data, index);
    case DType::kBool:
      return Load<uint8_t>(data, index) != 0 ? 1 : 0;
    case DType::kBF16:
      return BFloat16ToFloat(Load<uint16_t>(data, index));
    case DType::kF8E5M2:
    case DType::kF8E4M3:
      return Float8ToFloat(dtype, Load<uint8_t>(data, index));
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace cupel
