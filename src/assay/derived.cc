// SPDX-License-Identifier: Apache-2.0
#include "assay/derived.h"

#include <fmt/format.h>

#include <algorithm>

namespace cupel::assay {
namespace {

/// One trial for the result, and one to show that it follows the inputs.
constexpr int kDerivedTrials = 2;

/// True if the candidate's host code raised the problem itself.
bool IsRefusal(const records::Reason& problem) { return problem.code == "host_exception"; }

}  // namespace

int TrialsAt(const task::Setting& setting, int trials) {
  return setting.derived.empty() ? trials : std::min(trials, kDerivedTrials);
}

void ConvertRefusalToLimit(records::SettingReport& report) {
  if (report.derived.empty() || report.problems.empty()) return;
  const records::Reason& first = report.problems.front();
  if (!report.unsupported && !IsRefusal(first)) return;
  report.note = fmt::format("{} {}: {}", report.unsupported ? "not judged at" : "refuses",
                            report.derived, first.message);
  report.status = records::SettingStatus::kRefused;
  report.unsupported = false;
  report.problems.clear();
}

}  // namespace cupel::assay
