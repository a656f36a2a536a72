// SPDX-License-Identifier: Apache-2.0
#include "assay/derived.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::assay {
namespace {

records::SettingReport With(const char* code, bool unsupported, const char* derived) {
  records::SettingReport report;
  report.status = records::SettingStatus::kFailed;
  report.derived = derived;
  report.unsupported = unsupported;
  report.problems.push_back({code, "rows by four", "kernel.cu:3"});
  return report;
}

TEST(Derived, ExceptionsAndUnsupportedFeaturesBecomeLimits) {
  records::SettingReport raised = With("host_exception", false, "batch_size=1");
  ConvertRefusalToLimit(raised);
  EXPECT_EQ(raised.status, records::SettingStatus::kRefused);
  EXPECT_EQ(raised.note, "refuses batch_size=1: rows by four");
  EXPECT_TRUE(raised.problems.empty());
  records::SettingReport unsupported = With("unsupported_api", true, "batch_size=1");
  ConvertRefusalToLimit(unsupported);
  EXPECT_EQ(unsupported.status, records::SettingStatus::kRefused);
  EXPECT_FALSE(unsupported.unsupported);
  EXPECT_EQ(unsupported.note, "not judged at batch_size=1: rows by four");
}

TEST(Derived, FaultsAndListedSizesStillFail) {
  records::SettingReport fault = With("host_crash", false, "batch_size=1");
  ConvertRefusalToLimit(fault);
  EXPECT_EQ(fault.status, records::SettingStatus::kFailed);
  EXPECT_EQ(fault.problems.size(), 1u);
  records::SettingReport listed = With("host_exception", false, "");
  ConvertRefusalToLimit(listed);
  EXPECT_EQ(listed.status, records::SettingStatus::kFailed);
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
