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
  EXPECT_EQ(found, (Undefined{{0, {1, 2}}, {0, {4, 1}}, {0, {6, 1}}}));
  plan::Plan marked = pattern;
  MarkUndefined(found, marked);
  EXPECT_EQ(LaunchOf(marked, 0).parameters, std::string("a\0\0\xfe\0\xff\0", 7));
  EXPECT_EQ(LaunchOf(marked, 0).undefined, (std::vector<plan::ByteRange>{{1, 2}, {4, 1}, {6, 1}}));
}

TEST(Undefined, CountsLaunchesOfTheCallItself) {
  plan::Plan pattern = PlanOf({"\xfe", "ab", "\xfe\xfe"}),
             zeros = PlanOf({Zeros(1), "ab", Zeros(2)});
  pattern.nodes.insert(pattern.nodes.begin() + 2, {plan::Copy(), {}});
  zeros.nodes.insert(zeros.nodes.begin() + 2, {plan::Copy(), {}});
  pattern.prepared = zeros.prepared = 1;
  const Undefined found = FindUndefined(pattern, zeros);
  EXPECT_EQ(found, (Undefined{{1, {0, 2}}}));
  MarkUndefined(found, pattern);
  EXPECT_EQ(LaunchOf(pattern, 0).parameters, "\xfe");
  EXPECT_EQ(LaunchOf(pattern, 3).parameters, Zeros(2));
}

TEST(Undefined, PlansMayDiffer) {
  const plan::Plan pattern = PlanOf({"\xfe\xfe", "\xfe"}), zeros = PlanOf({Zeros(1)});
  const Undefined found = FindUndefined(pattern, zeros);
  EXPECT_EQ(found, (Undefined{{0, {0, 1}}}));
  plan::Plan other = PlanOf({""});
  MarkUndefined({{0, {5, 3}}, {7, {0, 1}}}, other);  // beyond the parameters, and no such launch
  EXPECT_EQ(LaunchOf(other, 0).parameters, "");
  EXPECT_TRUE(FindUndefined(plan::Plan(), zeros).empty());
}

TEST(Undefined, EnginesFillItWithTheBytesOfPoison) {
  plan::Plan plan = PlanOf({Zeros(8)});
  auto& launch = std::get<plan::Launch>(plan.nodes[0].work);
  launch.undefined = {{1, 2}, {5, 100}};
  std::string bytes = launch.parameters;
  plan::PoisonUndefined(launch, 0x44332211, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, std::string("\0\x22\x33\0\0\x22\x33\x44", 8));
}

}  // namespace
}  // namespace cupel::record
