// SPDX-License-Identifier: Apache-2.0
#include "report/suite/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/suite/suite.h"

namespace cupel::report {
namespace {

using testing::HasSubstr;

Json Item(const std::string& task, const std::string& decision, double speedup = 1) {
  const Json ratio{{"estimate", speedup}, {"low", speedup}, {"high", speedup}};
  const Json setting{{"id", "single-0"},
                     {"kind", "single"},
                     {"status", "passed"},
                     {"us", {{"estimate", 3}, {"low", 3}, {"high", 3}}},
                     {"speedup", {{"eager", ratio}}}};
  return {{"id", task + "/forward/k.cu"}, {"task", task},
          {"direction", "forward"},       {"kernel", "k.cu"},
          {"decision", decision},         {"settings", Json::array({setting})}};
}

NamedResults Piece(const std::string& name, std::vector<Json> items) {
  return {name,
          {{"schema", kSuiteSchema},
           {"cupel", "0.1.0"},
           {"engine", "gpu"},
           {"device", "NVIDIA H200"},
           {"torch", "2.11"},
           {"seed", "7"},
           {"status", "finished"},
           {"asked", {{"trials", 2}}},
           {"items", std::move(items)},
           {"without_kernel", Json::array()},
           {"notes", Json::array()},
           {"timing", {{"created_ms", 5}, {"updated_ms", 6}, {"commits", {"c"}}}}}};
}

TEST(SuiteMerge, UsesTheLastResultAndComputesScoresAgain) {
  NamedResults later = Piece("later", {Item("b", "accepted", 4), Item("c", "rejected")});
  later.document["torch"] = "2.12";
  later.document["timing"] = {{"created_ms", 8}, {"updated_ms", 9}, {"commits", {"d", "c"}}};
  const auto merged =
      MergeSuites({Piece("first", {Item("a", "accepted", 2), Item("b", "rejected")}), later});
  ASSERT_TRUE(merged) << merged.error().message;
  const Suite suite = *ReadSuite(*merged, "m");
  ASSERT_EQ(suite.items.size(), 3u);
  EXPECT_EQ(suite.items[0].task + suite.items[1].task + suite.items[2].task, "abc");
  EXPECT_TRUE(suite.items[1].accepted());
  EXPECT_EQ((*merged)["items"][0]["from"], "first");
  EXPECT_EQ((*merged)["items"][1]["from"], "later");
  EXPECT_EQ((*merged)["scores"]["correct_problems"], 2);
  EXPECT_EQ((*merged)["status"], "finished");
  EXPECT_EQ((*merged)["torch"], "2.11, 2.12");
  EXPECT_EQ((*merged)["cupel"], "0.1.0");
  EXPECT_EQ((*merged)["timing"],
            Json({{"created_ms", 5}, {"updated_ms", 9}, {"commits", {"c", "d"}}}));
  EXPECT_EQ((*merged)["merged"][1]["torch"], "2.12");
}

TEST(SuiteMerge, NotesResultWithFewerSettings) {
  Json more = Item("a", "accepted");
  more["settings"].push_back(more["settings"][0]);
  more["settings"][1]["id"] = "multi-0";
  const Json fewer = Item("a", "accepted");
  const auto merged = MergeSuites({Piece("all", {more}), Piece("one", {fewer})});
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_EQ((*merged)["items"][0]["settings"].size(), 1u);
  ASSERT_EQ((*merged)["notes"].size(), 1u);
  EXPECT_THAT(std::string((*merged)["notes"][0]),
              HasSubstr("1 settings of \"one\" replace 2 of \"all\""));
  const auto other_way = MergeSuites({Piece("one", {fewer}), Piece("all", {more})});
  EXPECT_TRUE((*other_way)["notes"].empty());
}

TEST(SuiteMerge, PendingItemsReplaceNothingAndLeaveTheSuiteStopped) {
  const auto merged = MergeSuites({Piece("x", {Item("a", "accepted")}),
                                   Piece("y", {Item("a", "pending"), Item("b", "pending")})});
  ASSERT_TRUE(merged);
  EXPECT_EQ((*merged)["items"][0]["decision"], "accepted");
  EXPECT_EQ((*merged)["status"], "stopped");
  // With the missing piece it is complete, and items keep their origin.
  const auto whole = MergeSuites({{"xy", *merged}, Piece("z", {Item("b", "accepted")})});
  ASSERT_TRUE(whole);
  EXPECT_EQ((*whole)["status"], "finished");
  EXPECT_EQ((*whole)["items"][0]["from"], "x");
  EXPECT_EQ((*whole)["merged"].size(), 3u);
}

TEST(SuiteMerge, ErrorsReplaceOnlyPendingItems) {
  NamedResults later = Piece("y", {Item("a", "error"), Item("b", "error")});
  later.document["device"] = "";  // nothing was judged there
  const auto merged =
      MergeSuites({Piece("x", {Item("a", "accepted"), Item("b", "pending")}), later});
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_EQ((*merged)["items"][0]["decision"], "accepted");
  EXPECT_EQ((*merged)["items"][1]["decision"], "error");
  EXPECT_EQ((*merged)["status"], "stopped");
  const auto turned = MergeSuites({later, Piece("x", {Item("a", "accepted")})});
  ASSERT_TRUE(turned) << turned.error().message;
  EXPECT_EQ((*turned)["items"][0]["decision"], "accepted");
  EXPECT_NE((*turned)["device"], "");
  NamedResults elsewhere = Piece("z", {Item("a", "accepted")});
  elsewhere.document["device"] = "another";
  EXPECT_FALSE(MergeSuites({later, Piece("x", {Item("a", "accepted")}), elsewhere}));
}

TEST(SuiteMerge, UnfinishedItemsReplaceOnlyPendingOnes) {
  const auto unfinished = [](const std::string& name) {
    NamedResults piece = Piece(name, {Item("a", "accepted"), Item("b", "accepted")});
    for (Json& item : piece.document["items"]) item["unfinished"] = {{"timed", 1}, {"of", 2}};
    return piece;
  };
  const NamedResults whole = Piece("x", {Item("a", "accepted", 2), Item("b", "pending")});
  for (const bool later : {true, false}) {
    const auto merged =
        later ? MergeSuites({whole, unfinished("y")}) : MergeSuites({unfinished("y"), whole});
    ASSERT_TRUE(merged);
    EXPECT_EQ((*merged)["items"][0]["from"], "x");
    EXPECT_EQ((*merged)["items"][1]["from"], "y");
    EXPECT_EQ((*merged)["status"], "stopped");
  }
}

TEST(SuiteMerge, ProblemHasAKernelIfAnyPieceHasOne) {
  NamedResults without = Piece("x", {Item("a", "accepted")});
  without.document["without_kernel"] = Json::array(
      {{{"task", "b"}, {"direction", "forward"}}, {{"task", "b"}, {"direction", "backward"}}});
  const auto merged = MergeSuites({without, Piece("y", {Item("b", "accepted")})});
  ASSERT_TRUE(merged);
  const Suite suite = *ReadSuite(*merged, "m");
  ASSERT_EQ(suite.without_kernel.size(), 1u);
  EXPECT_EQ(suite.without_kernel[0].second, "backward");
}

TEST(SuiteMerge, RejectsResultsOfDifferentDevices) {
  NamedResults other = Piece("other", {});
  other.document["device"] = "NVIDIA B200";
  const auto merged = MergeSuites({Piece("one", {}), other});
  ASSERT_FALSE(merged);
  EXPECT_THAT(merged.error().message, HasSubstr("\"NVIDIA H200\" and \"NVIDIA B200\""));
  EXPECT_FALSE(MergeSuites({Piece("one", {}), {"list", Json::array()}}));
}

TEST(SuiteMerge, AcceptsMembersOfAnyShape) {
  for (const char* text : {"null", "3", "[[]]", R"([null, 1, "x"])", R"({"a": 1})"}) {
    NamedResults odd = Piece("odd", {Item("a", "accepted")});
    for (const char* key :
         {"without_kernel", "notes", "timing", "merged", "ceilings", "torch", "asked"}) {
      odd.document[key] = *ParseJson(text, "t");
    }
    EXPECT_TRUE(MergeSuites({odd, odd})) << text;
  }
}

}  // namespace
}  // namespace cupel::report
