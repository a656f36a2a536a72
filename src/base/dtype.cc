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
};

constexpr std::array<Row, 10> kRows = {{
    {DType::kU8, "uint8", 1, 0, 0},
    {DType::kI8, "int8", 1, 0, 0},
    {DType::kI16, "int16", 2, 0, 0},
    {DType::kI32, "int32", 4, 0, 0},
    {DType::kI64, "int64", 8, 0, 0},
    {DType::kF16, "float16", 2, 0x1p-11, 0x1p-14},
    {DType::kF32, "float32", 4, 0x1p-24, 0x1p-126},
    {DType::kF64, "float64", 8, 0x1p-53, 0x1p-1022},
    {DType::kBool, "bool", 1, 0, 0},
    {DType::kBF16, "bfloat16", 2, 0x1p-8, 0x1p-126},
}};

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
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace cupel
