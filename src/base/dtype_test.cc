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

TEST(DType, UsesPyTorchNames) {
  EXPECT_EQ(Name(DType::kBF16), "bfloat16");
  EXPECT_EQ(DTypeFromName("int64"), DType::kI64);
  EXPECT_FALSE(DTypeFromName("float").has_value());
}

}  // namespace
}  // namespace cupel
