// SPDX-License-Identifier: Apache-2.0
#include "assay/derived.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::assay {
namespace {

judge::SettingReport With(const char* code, bool unsupported, const char* derived) {
  judge::SettingReport report;
  report.status = "failed";
  report.derived = derived;
  report.unsupported = unsupported;
  report.problems.push_back({code, "rows by four", "kernel.cu:3"});
  return report;
}

TEST(Derived, AnExceptionAndWhatCupelLacksBecomeLimits) {
  judge::SettingReport raised = With("host_exception", false, "batch_size=1");
  ForgiveAtDerivedSizes(raised);
  EXPECT_EQ(raised.status, "refused");
  EXPECT_EQ(raised.note, "refuses batch_size=1: rows by four");
  EXPECT_TRUE(raised.problems.empty());
  judge::SettingReport lacking = With("unsupported_api", true, "batch_size=1");
  ForgiveAtDerivedSizes(lacking);
  EXPECT_EQ(lacking.status, "refused");
  EXPECT_FALSE(lacking.unsupported);
  EXPECT_EQ(lacking.note, "not judged at batch_size=1: rows by four");
}

TEST(Derived, FaultsAndListedSizesAreNotForgiven) {
  judge::SettingReport fault = With("host_crash", false, "batch_size=1");
  ForgiveAtDerivedSizes(fault);
  EXPECT_EQ(fault.status, "failed");
  EXPECT_EQ(fault.problems.size(), 1u);
  judge::SettingReport listed = With("host_exception", false, "");
  ForgiveAtDerivedSizes(listed);
  EXPECT_EQ(listed.status, "failed");
}

TEST(Derived, TwoTrialsAreEnough) {
  task::Setting setting;
  EXPECT_EQ(TrialsAt(setting, 5), 5);
  setting.derived = "batch_size=1";
  EXPECT_EQ(TrialsAt(setting, 5), 2);
  EXPECT_EQ(TrialsAt(setting, 1), 1);
}

}  // namespace
}  // namespace cupel::assay
