// Writes the results of a suite run into its folder, and formats them for the terminal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "archive/suite_store.h"
#include "base/json.h"

namespace cupel::cli {

struct SuiteReport {
  std::string text;  // for the terminal
  Json document;     // cupel.suite/1
};

/// Writes results.json, .csv, .md, .html and .svg into `folder`.
Result<SuiteReport> WriteSuiteReport(const archive::SuiteStore& store,
                                     const std::filesystem::path& folder);

/// Whether the folder has results but no store: a merge wrote them, or they were copied.
bool HasOnlyResults(const std::filesystem::path& folder);

}  // namespace cupel::cli
