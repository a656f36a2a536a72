// SPDX-License-Identifier: Apache-2.0
#include "evolve/edits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::evolve {
namespace {

using testing::HasSubstr;

constexpr const char* kEdited =
    "int a = 1;\n"
    "  for (;;) {\n"
    "    b();\n"
    "  }\n"
    "  for (;;) {\n"
    "    c();\n"
    "  }\n"
    "int d;";

std::string Applied(const std::vector<Edit>& edits, std::string_view source = kEdited) {
  const auto result = ApplyEdits(source, edits);
  return result ? *result : result.error().message;
}

TEST(ApplyEdits, ReplacesInsertsAndDeletesWholeLines) {
  EXPECT_EQ(
      Applied({{"    b();", "    b1();\n    b2();"}, {"int a = 1;", ""}, {"int d;", "int e;"}}),
      "  for (;;) {\n    b1();\n    b2();\n  }\n  for (;;) {\n    c();\n  }\nint e;\n");
  EXPECT_EQ(Applied({}), kEdited);
}

TEST(ApplyEdits, AppliesAllEditsToTheOriginalFile) {
  EXPECT_EQ(Applied({{"one", "two"}, {"two", "one"}}, "one\ntwo\n"), "two\none\n");
}

TEST(ApplyEdits, RejectsTextThatOccursTwice) {
  EXPECT_THAT(
      Applied({{"    c();", "x"}, {"  for (;;) {", "x"}}),
      HasSubstr("edit 2: the search text occurs 2 times in the file, first at lines 2 and 5"));
  EXPECT_THAT(Applied({{"aa\naa", "x"}}, "aa\naa\naa\n"), HasSubstr("occurs 2 times"));
  EXPECT_THAT(Applied({{"  }\n  for (;;) {", "x"}}), HasSubstr("x\n    c();"));
}

TEST(ApplyEdits, NamesTheNearestLineOfAMissingText) {
  EXPECT_EQ(
      Applied({{"    c(1);", "x"}}),
      "edit 1: the search text does not occur in the file; its line \"    c(1);\" is nearest "
      "to line 6 of the file, \"    c();\"; copy whole lines exactly, with their indentation");
  EXPECT_THAT(Applied({{"int a = 1;\n    c();", "x"}}), HasSubstr("\"int a = 1;\" matches line 1"));
  EXPECT_THAT(Applied({{"b();", "x"}}), HasSubstr("nearest to line 3"));  // indentation counts
  EXPECT_THAT(Applied({{"a", "x"}}, ""), HasSubstr("no line of the file resembles it"));
  EXPECT_THAT(Applied({{"int a", "x"}}), HasSubstr("does not occur"));  // lines are whole
}

// So that a model sees what it must correct without the whole file.
TEST(ApplyEdits, ShowsTheRegionAroundAFailure) {
  std::string source;
  for (int i = 0; i < 100; ++i) source += "line " + std::to_string(i) + ";\n";
  const auto result = ApplyEdits(source, {{"line 3;", "x"}, {"line  50;", "y"}});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().edits, testing::ElementsAre(1));
  EXPECT_THAT(result.error().region, HasSubstr("line 50;\nline 51;\n"));
  EXPECT_EQ(result.error().region.find("line 70;"), std::string::npos);
  EXPECT_EQ(result.error().region.find("line 30;"), std::string::npos);
}

TEST(ApplyEdits, IgnoresBlanksAtLineEnds) {
  EXPECT_EQ(Applied({{"a;  \nb;", "c;"}}, "a;\r\nb;\t\r\nz\r\n"), "c;\nz\r\n");
  EXPECT_THAT(Applied({{"a  b", "x"}}, "a b\n"), HasSubstr("does not occur"));
}

TEST(ApplyEdits, RejectsEmptySearchesAndOverlaps) {
  EXPECT_THAT(Applied({{"", "x"}}), HasSubstr("edit 1: the search text is empty"));
  EXPECT_THAT(Applied({{" \n\t", "x"}}), HasSubstr("edit 1: the search text is empty"));
  EXPECT_EQ(Applied({{"    c();\n  }", "x"}, {"  for (;;) {\n    c();", "y"}}),
            "edits 2 and 1 overlap at line 6 of the file; join them into one edit");
  EXPECT_THAT(Applied({{"int d;", "x"}, {"int d;", "x"}}), HasSubstr("overlap at line 8"));
}

}  // namespace
}  // namespace cupel::evolve
