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

TEST(Derived, ExceptionsAndUnsupportedFeaturesBecomeLimits) {
  judge::SettingReport raised = With("host_exception", false, "batch_size=1");
  ConvertRefusalToLimit(raised);
  EXPECT_EQ(raised.status, "refused");
  EXPECT_EQ(raised.note, "refuses batch_size=1: rows by four");
  EXPECT_TRUE(raised.problems.empty());
  judge::SettingReport unsupported = With("unsupported_api", true, "batch_size=1");
  ConvertRefusalToLimit(unsupported);
  EXPECT_EQ(unsupported.status, "refused");
  EXPECT_FALSE(unsupported.unsupported);
  EXPECT_EQ(unsupported.note, "not judged at batch_size=1: rows by four");
}

TEST(Derived, FaultsAndListedSizesStillFail) {
  judge::SettingReport fault = With("host_crash", false, "batch_size=1");
  ConvertRefusalToLimit(fault);
  EXPECT_EQ(fault.status, "failed");
  EXPECT_EQ(fault.problems.size(), 1u);
  judge::SettingReport listed = With("host_exception", false, "");
  ConvertRefusalToLimit(listed);
  EXPECT_EQ(listed.status, "failed");
}

TEST(Derived, DerivedSizesGetTwoTrials) {
  task::Setting setting;
  EXPECT_EQ(TrialsAt(setting, 5), 5);
  setting.derived = "batch_size=1";
  EXPECT_EQ(TrialsAt(setting, 5), 2);
  EXPECT_EQ(TrialsAt(setting, 1), 1);
}

}  // namespace
}  // namespace cupel::assay
