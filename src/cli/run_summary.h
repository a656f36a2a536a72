// Summarises what a run tried and found, for `cupel report` and the end of `cupel optimize`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "archive/archive.h"
#include "base/json.h"

namespace cupel::cli {

inline constexpr const char* kRunFile = "run.cupel";
inline constexpr const char* kBestFile = "best.cu";
inline constexpr const char* kReportFile = "report.html";

struct RunSummary {
  std::optional<archive::Candidate> best;
  std::string best_source;
  std::string text;  // for the terminal
  Json json;         // cupel.run/1
  std::string html;
};

/// `folder` is the folder of the run, which also gets its best kernel.
Result<RunSummary> Summarise(const archive::Archive& archive, const std::filesystem::path& folder);

}  // namespace cupel::cli
