// SPDX-License-Identifier: Apache-2.0
#include "os/lines.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cupel::os {
namespace {

TEST(Lines, JoinsPartsIntoCompleteLines) {
  Lines lines(10);
  lines.Feed("on");
  EXPECT_EQ(*lines.Next(), std::nullopt);
  lines.Feed("e\ntwo\nthr");
  EXPECT_EQ(*lines.Next(), "one");
  EXPECT_EQ(*lines.Next(), "two");
  EXPECT_EQ(*lines.Next(), std::nullopt);
  EXPECT_EQ(lines.rest(), "thr");
  lines.Feed("ee\n\n");
  EXPECT_EQ(*lines.Next(), "three");
  EXPECT_EQ(*lines.Next(), "");
}

TEST(Lines, RejectsTooLongLineBeforeItsEnd) {
  Lines whole(10), endless(10);
  whole.Feed("12345678901\n");
  EXPECT_FALSE(whole.Next());
  endless.Feed("12345678901");
  EXPECT_FALSE(endless.Next());
  Lines fits(10);
  fits.Feed("1234567890\n");
  EXPECT_EQ(*fits.Next(), "1234567890");
}

TEST(Lines, SkipsLineThatIsTooLong) {
  Lines lines(8);
  lines.Feed("0123456789");
  EXPECT_FALSE(lines.Next());
  lines.Skip();
  lines.Feed("abc");
  lines.Feed("def\nnext\nlonger than eight\nlast\n");
  EXPECT_EQ(lines.Next().value(), "next");
  EXPECT_FALSE(lines.Next());
  lines.Skip();
  EXPECT_EQ(lines.Next().value(), "last");
  EXPECT_EQ(lines.Next().value(), std::nullopt);
}

TEST(Lines, EverySplitGivesTheSameLines) {
  const std::string text = "a\r\nb\n\rc\r\r\n\nrest";
  for (const auto& [ends, wanted] :
       {std::pair(LineEnds::kLf, std::vector<std::string>{"a\r", "b", "\rc\r\r", "", "rest"}),
        std::pair(LineEnds::kAny, std::vector<std::string>{"a", "b", "", "c", "", "", "rest"})}) {
    for (size_t split = 0; split <= text.size(); ++split) {
      Lines lines(100, ends);
      std::vector<std::string> got;
      for (const std::string& part : {text.substr(0, split), text.substr(split)}) {
        lines.Feed(part);
        while (auto line = lines.Next().value()) got.push_back(*line);
      }
      got.emplace_back(lines.rest());
      EXPECT_EQ(got, wanted) << split;
    }
  }
}

}  // namespace
}  // namespace cupel::os
