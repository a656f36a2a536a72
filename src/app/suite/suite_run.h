// Runs a suite: lists kernels, takes finished ones from the store, and judges the rest with a
// worker pool. Each outcome is stored before the next is taken, so that a run can be killed at any
// moment and resumed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "app/options.h"
#include "app/suite/suite_results.h"
#include "archive/suite_store.h"
#include "base/events.h"
#include "base/result.h"

namespace cupel::app {

struct SuiteRunReport {
  SuiteResults results;
  std::filesystem::path folder;  // of the run
  archive::SuiteCounts counts;
  size_t not_judged = 0;  // because of an error in cupel or in the task, or because the run stopped
  Status status;          // an Error: the run stopped early, and the results are incomplete
};

/// Errors: wrong options; the results could not be stored. If the run stops early, it also has
/// results: see SuiteRunReport::status.
Result<SuiteRunReport> RunSuite(const SuiteRunOptions& options, Events& events);

}  // namespace cupel::app
