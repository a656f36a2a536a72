// Writes a kernel as an installable PyTorch package.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "app/options.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"
#include "judge/verdict.h"

namespace cupel::app {

struct ExportReport {
  std::string package;                     // its name; empty: not exported
  std::vector<records::Verdict> verdicts;  // of the forward kernel, then of the backward kernel
};

using OnVerdict = std::function<void(const records::Verdict&)>;

/// Judges the kernels, then writes the package into a new folder. `judged` receives each verdict
/// before the work goes on. A kernel that is not accepted ends the export, unless it is forced.
Result<ExportReport> Export(const ExportOptions& options, Events& events, const OnVerdict& judged);

/// The document "cupel.export/1", for a report with a package in `folder`.
Json ToJson(const ExportReport& report, const std::filesystem::path& folder);

}  // namespace cupel::app
