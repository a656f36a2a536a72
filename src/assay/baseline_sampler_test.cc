// SPDX-License-Identifier: Apache-2.0
#include "assay/baseline_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace cupel::assay {
namespace {

using ::testing::HasSubstr;

/// A library's function with one result, whose largest element is 8.
oracle::BaselineInfo Named(double difference, double rms_share,
                           std::optional<double> differing = {}) {
  oracle::BaselineInfo info;
  info.baseline.kind = oracle::BaselineKind::kNamed;
  info.baseline.named.file = "folder/library.py";
  info.outputs = {{"cache", false, difference, 8, rms_share, differing}};
  return info;
}

TEST(ComputesOther, AllowsRounding) {
  EXPECT_FALSE(ComputesOther(Named(0.5, 0.03)).has_value());
  EXPECT_FALSE(ComputesOther(Named(3, 0, 0.09)).has_value()) << "a tie may be chosen otherwise";
}

TEST(ComputesOther, RefusesOtherResults) {
  const auto largest = ComputesOther(Named(0.9, 0.01));
  ASSERT_TRUE(largest.has_value());
  EXPECT_EQ(largest->code, "other_results");
  EXPECT_EQ(largest->where, "library.py");
  EXPECT_THAT(largest->message, HasSubstr("its cache differs"));
  EXPECT_TRUE(ComputesOther(Named(0.5, 0.2)).has_value()) << "small errors in many elements";
  EXPECT_TRUE(ComputesOther(Named(0, std::numeric_limits<double>::infinity())).has_value());
  const auto integers = ComputesOther(Named(1, 0, 0.5));
  ASSERT_TRUE(integers.has_value());
  EXPECT_THAT(integers->message, HasSubstr("50 % of its elements"));
}

TEST(ComputesOther, LooksAtEachResult) {
  oracle::BaselineInfo info = Named(0, 0);
  info.outputs.push_back({"gradient", false, 8, 8, 1, {}});
  EXPECT_TRUE(ComputesOther(info).has_value());
  info.outputs.back().is_none = true;
  EXPECT_FALSE(ComputesOther(info).has_value());
}

TEST(ComputesOther, OnlyNamedBaselinesAreRefused) {
  oracle::BaselineInfo info = Named(8, 1);
  info.baseline.kind = oracle::BaselineKind::kCompile;
  EXPECT_FALSE(ComputesOther(info).has_value());
}

}  // namespace
}  // namespace cupel::assay
