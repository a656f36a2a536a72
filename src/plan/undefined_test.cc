// SPDX-License-Identifier: Apache-2.0
#include "plan/undefined.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <variant>

#include "plan/codec.h"

namespace cupel::plan {
namespace {

Plan PartlyUndefined() {
  Launch launch;
  launch.parameters = std::string("ab\0\0cd", 6);
  launch.undefined = {{2, "xy"}};
  Upload upload;
  upload.bytes = std::string(8, '\0');
  upload.undefined = {{0, "12"}, {4, "3456"}};
  Plan plan;
  plan.nodes = {{launch, {}}, {upload, {}}, {Copy(), {}}};
  return plan;
}

const std::string& ParametersOf(const Plan& plan) {
  return std::get<Launch>(plan.nodes[0].work).parameters;
}
const std::string& UploadOf(const Plan& plan) { return std::get<Upload>(plan.nodes[1].work).bytes; }

TEST(PlanUndefined, IsFilledInSeveralWays) {
  const Plan plan = PartlyUndefined();
  EXPECT_EQ(UndefinedIn(plan.nodes[1]), 6u);
  EXPECT_EQ(UndefinedIn(plan.nodes[2]), 0u);
  const auto filled = [&](Filling filling) { return FillUndefined(plan, filling, 1); };
  EXPECT_EQ(ParametersOf(filled(Filling::kFound)), "abxycd");
  EXPECT_EQ(UploadOf(filled(Filling::kFound)), std::string("12\0\0"
                                                           "3456",
                                                           8));
  EXPECT_EQ(ParametersOf(filled(Filling::kZeros)), std::string("ab\0\0cd", 6));
  EXPECT_EQ(ParametersOf(filled(Filling::kOnes)),
            "ab\xff\xff"
            "cd");
  EXPECT_EQ(UploadOf(filled(Filling::kOnes)), std::string("\xff\xff\0\0\xff\xff\xff\xff", 8));
  const std::string small = UploadOf(filled(Filling::kSmall));
  EXPECT_TRUE(small[0] >= 1 && small[0] <= 4 && small[4] >= 1 && small[4] <= 4);
  EXPECT_EQ(small.substr(1, 3) + small.substr(5), std::string(6, '\0'));
  std::set<std::string> random;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::string bytes = ParametersOf(FillUndefined(plan, Filling::kRandom, seed));
    EXPECT_EQ(bytes.substr(0, 2) + bytes.substr(4), "abcd");
    random.insert(bytes);
  }
  EXPECT_GT(random.size(), 18u);
  EXPECT_TRUE(HasUndefined(plan));
  EXPECT_FALSE(HasUndefined(filled(Filling::kRandom)));
}

TEST(PlanUndefined, WhatWasFoundDoesNotTellPlansApart) {
  const Plan plan = PartlyUndefined();
  Plan other = plan;
  std::get<Launch>(other.nodes[0].work).undefined[0].found = "zz";
  EXPECT_EQ(plan, other);
  std::get<Launch>(other.nodes[0].work).undefined[0].found = "z";
  EXPECT_NE(plan, other);
}

}  // namespace
}  // namespace cupel::plan
