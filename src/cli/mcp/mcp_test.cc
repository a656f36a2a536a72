// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "cli/mcp/brief.h"
#include "cli/mcp/child.h"
#include "cli/mcp/records.h"

namespace cupel::cli {
namespace {

using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Json Parsed(const std::string& text) { return ParseJson(text, "test").value(); }

TEST(McpBrief, RemovesNamedMembersAndListsThem) {
  constexpr std::array<std::string_view, 3> kNames = {"/settings/*/trials", "/tools", "/absent/x"};
  const Json brief = Brief(
      Parsed(
          R"({"verdict":"rejected","tools":{"a":1},"settings":[{"id":"s","trials":[1]},{"id":"t"}]})"),
      kNames, 10'000);
  EXPECT_EQ(brief, Parsed(R"({"verdict":"rejected","settings":[{"id":"s"},{"id":"t"}],
                              "left_out":["/settings/*/trials","/tools"]})"));
}

TEST(McpBrief, KeepsShortDocumentsUnchanged) {
  const Json document = Parsed(R"({"list":[1,2,3],"text":"abc"})");
  Json brief = Brief(document, {}, 1000);
  EXPECT_THAT(brief["left_out"], IsEmpty());
  brief.erase("left_out");
  EXPECT_EQ(brief, document);
}

TEST(McpBrief, CutsLongListsAndTexts) {
  Json document{{"verdict", "rejected"}, {"text", std::string(100'000, 'x')}};
  for (int i = 0; i < 5000; ++i) document["findings"].push_back({{"message", "number"}, {"i", i}});
  const Json brief = Brief(document, {}, 8000);
  EXPECT_LE(DumpJson(brief).size(), 8500u);
  EXPECT_EQ(brief["verdict"], "rejected");
  EXPECT_EQ(brief["findings"][0]["i"], 0);
  EXPECT_THAT(brief["text"].get<std::string>(), EndsWith("…"));
  EXPECT_THAT(brief["left_out"], Contains(HasSubstr("/findings: 49")));
}

TEST(McpBrief, EmptiesMembersThatAreStillTooLarge) {
  Json document{{"verdict", "accepted"}};
  for (int i = 0; i < 1000; ++i) {
    for (int j = 0; j < 50; ++j) {
      document["launches"]["kernel" + std::to_string(i)]["line" + std::to_string(j)] = j;
    }
  }
  const Json brief = Brief(document, {}, 8000);
  EXPECT_LE(DumpJson(brief).size(), 8500u);
  EXPECT_EQ(brief["verdict"], "accepted");
  EXPECT_THAT(brief["left_out"], Contains("/launches"));
}

TEST(McpBrief, CutsTextsAtCharacterBoundaries) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "ä";
  const Json brief = Brief({{"a", "x" + text}}, {}, 2000);
  const auto cut = brief["a"].get<std::string>();
  EXPECT_EQ(brief, Parsed(DumpJson(brief)));  // fails for invalid UTF-8
  EXPECT_LT(cut.size(), 2000u);
}

TEST(McpBrief, FirstLinesKeepsWholeLines) {
  EXPECT_EQ(FirstLines("a\nb\n", 4), "a\nb\n");
  EXPECT_EQ(FirstLines("first\nsecond\nthird\n", 14),
            "first\nsecond\n(6 more bytes are not shown)\n");
  EXPECT_EQ(FirstLines("one long line", 4), "(13 more bytes are not shown)\n");
}

TEST(McpChild, ParsesProgressFromPlainLines) {
  const Step step = StepOf("12/55 trials · 3 s left · judging multi-3");
  EXPECT_EQ(step.done, 12);
  EXPECT_EQ(step.total, 55);
  for (const char* line :
       {"building", "", "/", "3", "3/", "3/x", "12/55", "99999999999999999999/1 x"}) {
    EXPECT_EQ(StepOf(line).total, std::nullopt) << line;
  }
}

TEST(McpChild, FindsTheLastError) {
  EXPECT_EQ(LastError("building\ncupel: no such task\n       see task list\n"),
            "no such task\n       see task list\n");
  EXPECT_EQ(LastError("cupel: no\n"), "no\n");
  EXPECT_EQ(LastError("Killed\n"), "Killed\n");
  EXPECT_THAT(LastError(std::string(100'000, 'x')), SizeIs(4096));
}

TEST(McpRecords, DropsTheOldestWithTheirFolders) {
  const auto records = McpRecords::Create().value();
  std::filesystem::path first;
  {
    const McpRecord record = records->New().value();
    EXPECT_EQ(record.number, 1);
    first = record.folder->path();
    EXPECT_EQ(records->Find(1)->folder->path(), first);
    for (int i = 0; i < 256; ++i) ASSERT_TRUE(records->New());
    // A call that is still running keeps its folder.
    EXPECT_TRUE(std::filesystem::exists(first));
  }
  EXPECT_FALSE(std::filesystem::exists(first));
  EXPECT_EQ(records->Find(1).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(records->Find(257));
  EXPECT_FALSE(records->Find(-1));
}

}  // namespace
}  // namespace cupel::cli
