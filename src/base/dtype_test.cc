// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cupel {
namespace {

TEST(DType, EveryHalfSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(value))));
    } else {
      EXPECT_EQ(FloatToHalf(value), bits);
    }
  }
}

TEST(DType, HalfRoundsToNearestEven) {
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f), 0x3c00);             // tie goes to even
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);  // above the tie
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);                    // just below the overflow tie
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);                    // the tie overflows
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000);                    // tie to zero
  EXPECT_EQ(FloatToHalf(0x1.8p-25f), 0x0001);
}

TEST(DType, BFloat16RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1.8p-8f), 0x3f81);
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(NAN))));
}

constexpr DType kFloat8[] = {DType::kF8E4M3, DType::kF8E5M2};

TEST(DType, EveryFloat8SurvivesARoundTrip) {
  for (const DType dtype : kFloat8) {
    int numbers = 0;
    for (uint32_t bits = 0; bits < 256; ++bits) {
      const auto byte = static_cast<uint8_t>(bits);
      const float value = Float8ToFloat(dtype, byte);
      EXPECT_EQ(LoadAsDouble(dtype, &byte, 0) == value, value == value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(Float8ToFloat(dtype, FloatToFloat8(dtype, value))));
      } else if (std::isfinite(value)) {
        EXPECT_EQ(FloatToFloat8(dtype, value), byte);
        ++numbers;
      }
    }
    EXPECT_EQ(numbers, dtype == DType::kF8E4M3 ? 254 : 248);
  }
  EXPECT_EQ(Float8ToFloat(DType::kF8E4M3, 0x7e), LargestFinite(DType::kF8E4M3));
  EXPECT_EQ(Float8ToFloat(DType::kF8E5M2, 0x7b), LargestFinite(DType::kF8E5M2));
  EXPECT_EQ(Float8ToFloat(DType::kF8E5M2, 0xfc), -INFINITY);
  EXPECT_EQ(Float8ToFloat(DType::kF8E4M3, 0x08), SmallestNormal(DType::kF8E4M3));
  EXPECT_EQ(Float8ToFloat(DType::kF8E5M2, 0x04), SmallestNormal(DType::kF8E5M2));
}

TEST(DType, Float8RoundsToNearestEvenAtEveryTie) {
  for (const DType dtype : kFloat8) {
    const int last = dtype == DType::kF8E4M3 ? 0x7e : 0x7b;
    for (int bits = 0; bits < last; ++bits) {
      const auto low = static_cast<uint8_t>(bits), high = static_cast<uint8_t>(bits + 1);
      const float a = Float8ToFloat(dtype, low), b = Float8ToFloat(dtype, high);
      const float tie = (a + b) / 2;
      EXPECT_EQ(FloatToFloat8(dtype, tie), bits % 2 == 0 ? low : high);
      EXPECT_EQ(FloatToFloat8(dtype, std::nextafter(tie, a)), low);
      EXPECT_EQ(FloatToFloat8(dtype, std::nextafter(tie, b)), high);
      EXPECT_EQ(FloatToFloat8(dtype, -std::nextafter(tie, b)), high | 0x80);
      EXPECT_EQ(HalfStep(dtype, a, true), tie - a);
      EXPECT_EQ(HalfStep(dtype, -b, false), b - tie);
    }
  }
}

TEST(DType, TooLargeNumbersSaturateOrBecomeInfinite) {
  EXPECT_EQ(FloatToFloat8(DType::kF8E4M3, 1e9f), 0x7e);
  EXPECT_EQ(FloatToFloat8(DType::kF8E4M3, -INFINITY), 0xfe);
  EXPECT_EQ(FloatToFloat8(DType::kF8E5M2, 61439.0f), 0x7b);
  EXPECT_EQ(FloatToFloat8(DType::kF8E5M2, 61440.0f), 0x7c);
  EXPECT_EQ(FloatToFloat8(DType::kF8E5M2, -1e9f), 0xfc);
  EXPECT_EQ(HalfStep(DType::kF8E4M3, 448, true), 16);
  EXPECT_EQ(HalfStep(DType::kF8E5M2, 57344, true), 4096);
  EXPECT_EQ(HalfStep(DType::kF8E4M3, 0, true), 0x1p-10);
}

TEST(DType, UsesPyTorchNames) {
  EXPECT_EQ(Name(DType::kBF16), "bfloat16");
  EXPECT_EQ(DTypeFromName("int64"), DType::kI64);
  EXPECT_EQ(DTypeFromName("float8_e4m3fn"), DType::kF8E4M3);
  EXPECT_FALSE(DTypeFromName("float8_e4m3fnuz").has_value());
  EXPECT_FALSE(DTypeFromName("float").has_value());
}

}  // namespace
}  // namespace cupel
