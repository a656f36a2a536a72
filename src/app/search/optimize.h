// Evolves a kernel, in a run that can be killed, resumed and replayed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "app/options.h"
#include "app/search/run_summary.h"
#include "base/events.h"
#include "base/result.h"

namespace cupel::app {

/// A run that starts or continues.
struct StartedRun {
  std::filesystem::path folder;
  std::string task;
  std::string objective;  // time, energy, mix
  std::string model;      // GPU that the emulator models
  std::string gpu;        // that measures the objective; empty: the emulator estimates times
};
using OnRunStarted = std::function<void(const StartedRun& run)>;

struct OptimizeReport {
  RunSummary summary;
  std::filesystem::path folder;  // has the best kernel and the page
  std::string end;               // why the search ended; may be empty
  bool start_accepted = false;   // the starting kernel is correct
  Status status;                 // an Error: the run stopped early and can be continued
};

/// Errors: wrong options; the run could not be started or stored. If the run stops early, it also
/// has a report: see OptimizeReport::status.
Result<OptimizeReport> Optimize(const OptimizeOptions& options, Events& events,
                                const OnRunStarted& started);

}  // namespace cupel::app
