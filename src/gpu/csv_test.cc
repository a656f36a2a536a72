// SPDX-License-Identifier: Apache-2.0
#include "gpu/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Csv, ReadsQuotedCells) {
  const auto rows = ParseCsv("a,\"b, c\",\"d\"\"e\"\"\",\"two\nlines\"\r\n,\"\",x\n", "text");
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  EXPECT_THAT(*rows, ElementsAre(ElementsAre("a", "b, c", "d\"e\"", "two\nlines"),
                                 ElementsAre("", "", "x")));
}

TEST(Csv, LastLineNeedsNoLineEnd) {
  EXPECT_THAT(*ParseCsv("a,b\n\n\r\nc,", "text"),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("c", "")));
  EXPECT_THAT(*ParseCsv("", "text"), ElementsAre());
  EXPECT_THAT(*ParseCsv("\"\"", "text"), ElementsAre());
}

TEST(Csv, QuoteInsideAnUnquotedCellIsText) {
  EXPECT_THAT(*ParseCsv("==WARNING== no \"x\", sorry\n", "text"),
              ElementsAre(ElementsAre("==WARNING== no \"x\"", " sorry")));
}

TEST(Csv, RejectsBrokenTextAndNamesTheLine) {
  for (const char* text : {"a\nb,\"never ends", "a\n\"b\"c,d\n", "a\n\"", "a\n\"\"\""}) {
    const auto rows = ParseCsv(text, "report");
    ASSERT_FALSE(rows.has_value()) << text;
    EXPECT_THAT(rows.error().message, HasSubstr("report, line 2"));
  }
}

TEST(Csv, RejectsOversizedText) {
  EXPECT_FALSE(ParseCsv(std::string(kMaxCsvBytes + 1, 'x'), "text").has_value());
  EXPECT_FALSE(ParseCsv(std::string(kMaxCsvCells, ','), "text").has_value());
  EXPECT_TRUE(ParseCsv(std::string(1 << 20, '\n'), "text")->empty());
  EXPECT_EQ((*ParseCsv(std::string(1 << 20, ','), "text"))[0].size(), (1u << 20) + 1);
}

}  // namespace
}  // namespace cupel::gpu
