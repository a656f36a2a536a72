// The results of suite runs: written into their folders, merged, and compared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "app/options.h"
#include "archive/suite_store.h"
#include "base/json.h"
#include "base/result.h"
#include "report/suite/compare.h"
#include "report/suite/scores.h"
#include "report/suite/suite.h"

namespace cupel::app {

struct SuiteResults {
  Json document;  // cupel.suite/1
  report::Suite suite;
  report::SuiteScores scores;
};

/// Writes results.json, .csv, .md, .html and .svg into `folder`.
Result<SuiteResults> WriteSuiteResults(const archive::SuiteStore& store,
                                       const std::filesystem::path& folder);

/// Whether the folder has results but no store: a merge wrote them, or they were copied.
bool HasOnlyResults(const std::filesystem::path& folder);

/// Writes the verdicts of a run as files into the folder `options.records`. Returns their number.
Result<size_t> WriteSuiteRecords(const SuiteReportOptions& options);
/// Writes the results of a run again, into its folder.
Result<SuiteResults> ReportSuite(const SuiteReportOptions& options);
/// Merges the results of several runs. Later runs win.
Result<SuiteResults> MergeSuites(const SuiteMergeOptions& options);
Result<report::Comparison> CompareSuites(const SuiteCompareOptions& options);

}  // namespace cupel::app
