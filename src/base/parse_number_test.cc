// SPDX-License-Identifier: Apache-2.0
#include "base/parse_number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace cupel {
namespace {

TEST(ParseNumberTest, TakesWholeTextsOnly) {
  EXPECT_EQ(ParseNumber<int>("42"), 42);
  EXPECT_EQ(ParseNumber<int>("-7"), -7);
  EXPECT_EQ(ParseNumber<double>("2.5"), 2.5);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x1", "1.5"}) {
    EXPECT_EQ(ParseNumber<int>(text), std::nullopt) << text;
  }
}

TEST(ParseNumberTest, RejectsNumbersOutOfRange) {
  EXPECT_EQ(ParseNumber<uint8_t>("255"), 255);
  EXPECT_EQ(ParseNumber<uint8_t>("256"), std::nullopt);
  EXPECT_EQ(ParseNumber<uint64_t>("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(ParseNumber<uint64_t>("18446744073709551616"), std::nullopt);
  EXPECT_EQ(ParseNumber<uint64_t>("-1"), std::nullopt);
}

TEST(ParseNumberTest, TakesTheNumberAtTheBeginning) {
  std::string_view text = "12.x";
  EXPECT_EQ(TakeNumber<int>(text), 12);
  EXPECT_EQ(text, ".x");
  EXPECT_EQ(TakeNumber<int>(text), std::nullopt);
  EXPECT_EQ(text, ".x");
}

}  // namespace
}  // namespace cupel
