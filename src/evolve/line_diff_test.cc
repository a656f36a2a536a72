// SPDX-License-Identifier: Apache-2.0
#include "evolve/line_diff.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "base/text.h"

namespace cupel::evolve {
namespace {

using ::testing::Optional;

constexpr size_t kAny = 1 << 20;

TEST(LineDiff, ShowsChangedLinesWithTheirNeighbours) {
  const std::string from = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
  EXPECT_THAT(LineDiff(from, "a\nb\nc\nD\ne\nf\ng\nh\ni\nj\nk\n", kAny),
              Optional(std::string("@@ 2 @@\n b\n c\n-d\n+D\n e\n f\n@@ 9 @@\n i\n j\n+k\n")));
  EXPECT_THAT(LineDiff(from, "0\n" + from, kAny), Optional(std::string("@@ 1 @@\n+0\n a\n b\n")));
  EXPECT_THAT(LineDiff("x\n", "", kAny), Optional(std::string("@@ 1 @@\n-x\n")));
  EXPECT_THAT(LineDiff(from, from, kAny), Optional(std::string()));
  EXPECT_THAT(LineDiff("", "", kAny), Optional(std::string()));
}

TEST(LineDiff, GivesUpOnLongTexts) {
  EXPECT_EQ(LineDiff("a\n", "b\n", 8), std::nullopt);
  EXPECT_THAT(LineDiff("a\n", "b\n", 14), Optional(std::string("@@ 1 @@\n-a\n+b\n")));
  std::string one, other;
  for (int i = 0; i < 4000; ++i) {
    one += std::to_string(i) + "\n";
    other += std::to_string(-i) + "\n";
  }
  EXPECT_EQ(LineDiff(one + "end\n", other, kAny), std::nullopt);
  EXPECT_NE(LineDiff(one + "x\n" + one, one + "y\n" + one, kAny), std::nullopt);
}

/// What a diff says: `from` with its changes.
std::string Applied(const std::string& from, const std::string& diff) {
  const auto lines = SplitLines(from);
  std::string text;
  size_t at = 0;
  for (const std::string_view line : SplitLines(diff)) {
    if (line.starts_with("@@ ")) {
      const size_t number = std::stoul(std::string(line.substr(3)));
      while (at + 1 < number) text += std::string(lines[at++]) + "\n";
      continue;
    }
    if (line[0] != '+') {
      EXPECT_EQ(lines[at++], line.substr(1));
    }
    if (line[0] != '-') text += std::string(line.substr(1)) + "\n";
  }
  while (at < lines.size()) text += std::string(lines[at++]) + "\n";
  return text;
}

TEST(LineDiff, SaysHowToMakeTheOther) {
  Random random(7);
  for (int i = 0; i < 300; ++i) {
    std::string from, to;
    for (uint64_t n = random.Below(12); n > 0; --n) from += fmt::format("{}\n", random.Below(4));
    for (uint64_t n = random.Below(12); n > 0; --n) to += fmt::format("{}\n", random.Below(4));
    const auto diff = LineDiff(from, to, kAny);
    ASSERT_TRUE(diff.has_value());
    EXPECT_EQ(Applied(from, *diff), to) << from << "--\n" << *diff;
  }
}

}  // namespace
}  // namespace cupel::evolve
