// Summarises what a run tried and found, for `cupel report` and the end of `cupel optimize`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "archive/archive.h"
#include "base/json.h"
#include "evolve/form.h"
#include "report/run/run.h"

namespace cupel::app {

inline constexpr const char* kRunFile = "run.cupel";
/// The name of the best kernel in a run's folder: "best.cu", or "best.py" for Python programs.
inline std::string BestFile(evolve::Form form) { return std::string("best") + SuffixOf(form); }
inline constexpr const char* kReportFile = "report.html";

struct RunSummary {
  report::Run run;
  std::optional<archive::Candidate> best;
  std::string best_source;
  std::string best_file;  // BestFile()
  Json json;              // cupel.run/1
  std::string html;
};

Result<RunSummary> Summarise(const archive::Archive& archive);

/// Writes the best kernel into the run's folder, if there is one. A run that was killed has not
/// done that.
Status WriteBest(const RunSummary& summary, const std::filesystem::path& folder);

}  // namespace cupel::app
