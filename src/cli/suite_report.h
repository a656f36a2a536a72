// The results of a suite run, written in its folder and shown.
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

/// Writes results.json, .csv, .md and .html into `folder`.
Result<SuiteReport> WriteSuiteReport(const archive::SuiteStore& store,
                                     const std::filesystem::path& folder);

/// Results that a merge wrote, or that were copied without the store of their run.
bool HoldsResultsAlone(const std::filesystem::path& folder);

}  // namespace cupel::cli
