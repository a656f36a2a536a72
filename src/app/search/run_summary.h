// Summarises what a run tried and found, for `cupel report` and the end of `cupel optimize`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "archive/archive.h"
#include "base/json.h"
#include "report/run/run.h"

namespace cupel::app {

inline constexpr const char* kRunFile = "run.cupel";
inline constexpr const char* kBestCudaFile = "best.cu";
inline constexpr const char* kReportFile = "report.html";

struct RunSummary {
  report::Run run;
  std::optional<archive::Candidate> best;
  std::string best_source;
  std::string best_file;  // its name in the run's folder: best.cu, or best.py
  Json json;              // cupel.run/1
  std::string html;
};

Result<RunSummary> Summarise(const archive::Archive& archive);

}  // namespace cupel::app
