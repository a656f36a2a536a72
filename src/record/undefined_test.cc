// SPDX-License-Identifier: Apache-2.0
#include "record/undefined.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cupel::record {
namespace {

plan::Plan PlanOf(std::vector<std::string> parameters) {
  plan::Plan plan;
  for (std::string& bytes : parameters) {
    plan::Launch launch;
    launch.parameters = std::move(bytes);
    plan.nodes.push_back({std::move(launch), {}});
  }
  return plan;
}

const plan::Launch& LaunchOf(const plan::Plan& plan, size_t node) {
  return std::get<plan::Launch>(plan.nodes.at(node).work);
}

std::string Zeros(size_t bytes) { return std::string(bytes, '\0'); }

TEST(Undefined, IsWhatHasThePatternOnlyInTheFirstPlan) {
  // A defined byte, undefined ones, a defined number like the pattern, a difference of another
  // kind.
  const plan::Plan pattern = PlanOf({"a\xfe\xfe\xfe\xfe\xff\xfe"}),
                   zeros = PlanOf({std::string("a\0\0\xfe\0\x01\0", 7)});
  const Undefined found = FindUndefined(pattern, zeros);
  EXPECT_EQ(found, (Undefined{{0, 1, 2}, {0, 4, 1}, {0, 6, 1}}));
  plan::Plan marked = pattern;
  MarkUndefined(found, marked);
  EXPECT_EQ(LaunchOf(marked, 0).parameters, std::string("a\0\0\xfe\0\xff\0", 7));
  const auto& undefined = LaunchOf(marked, 0).undefined;
  ASSERT_EQ(undefined.size(), 3u);
  EXPECT_EQ(undefined[0].at, 1u);
  EXPECT_EQ(undefined[0].found, "\xfe\xfe");
  EXPECT_EQ(undefined[2].at, 6u);
}

TEST(Undefined, PaddingIsWhatOnlyTheUsualPlanHas) {
  // GCC clears padding. The third byte is another number: no padding.
  const plan::Plan usual = PlanOf({"ab\x07z"}), filled = PlanOf({std::string("a\0\x08\0", 4)});
  EXPECT_EQ(FindPadding(usual, filled), (Undefined{{0, 1, 1}, {0, 3, 1}}));
  EXPECT_TRUE(FindPadding(filled, filled).empty());
}

TEST(Undefined, UploadsHaveItToo) {
  plan::Plan pattern, zeros;
  pattern.nodes = {{plan::Upload{{}, "\xfe\xfe", {}, {}}, {}}};
  zeros.nodes = {{plan::Upload{{}, Zeros(2), {}, {}}, {}}};
  EXPECT_EQ(FindUndefined(pattern, zeros), (Undefined{{0, 0, 2}}));
  zeros.nodes[0].work = plan::Copy();
  EXPECT_TRUE(FindUndefined(pattern, zeros).empty());
}

TEST(Undefined, MarksAreJoined) {
  plan::Plan plan = PlanOf({"abcdef", "gh"});
  MarkUndefined({{0, 1, 1}, {0, 4, 1}}, plan);
  MarkUndefined({{0, 2, 1}, {0, 4, 2}, {1, 0, 1}}, plan);
  const auto& undefined = LaunchOf(plan, 0).undefined;
  ASSERT_EQ(undefined.size(), 2u);
  EXPECT_EQ(undefined[0].at, 1u);
  EXPECT_EQ(undefined[0].found, "bc");
  EXPECT_EQ(undefined[1].at, 4u);
  EXPECT_EQ(undefined[1].found, "ef");
  EXPECT_EQ(LaunchOf(plan, 0).parameters, std::string("a\0\0d\0\0", 6));
  EXPECT_EQ(LaunchOf(plan, 1).parameters, std::string("\0h", 2));
}

TEST(Undefined, CountsTheWorkOfTheCallItself) {
  plan::Plan plan = PlanOf({"ab", "cd", "ef"});
  plan.prepared = 1;
  MarkUndefined({{0, 0, 1}, {2, 1, 1}}, plan);
  EXPECT_EQ(UndefinedInCall(plan), (Undefined{{1, 1, 1}}));
}

TEST(Undefined, PlansMayDiffer) {
  const plan::Plan pattern = PlanOf({"\xfe\xfe", "\xfe"}), zeros = PlanOf({Zeros(1)});
  EXPECT_TRUE(FindUndefined(pattern, zeros).empty());  // of another size
  EXPECT_TRUE(FindUndefined(plan::Plan(), zeros).empty());
  plan::Plan other = PlanOf({"a"});
  MarkUndefined({{0, 0, 9}, {0, 5, 3}, {7, 0, 1}}, other);  // beyond the parameters, and no node
  EXPECT_EQ(LaunchOf(other, 0).parameters, Zeros(1));
  ASSERT_EQ(LaunchOf(other, 0).undefined.size(), 1u);
  EXPECT_EQ(LaunchOf(other, 0).undefined[0].found, "a");
}

TEST(Undefined, IsTakenBeforePointersAreLookedFor) {
  std::string bytes = "abcdef";
  const auto taken = TakeUndefined({{3, 0, 2}, {4, 1, 2}, {4, 9, 2}}, 4, bytes);
  EXPECT_EQ(bytes, std::string("a\0\0def", 6));
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].found, "bc");
}

}  // namespace
}  // namespace cupel::record
