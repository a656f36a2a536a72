// Times kernels on a GPU against eager PyTorch, torch.compile and each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/options.h"
#include "assay/bench.h"
#include "base/events.h"
#include "base/result.h"
#include "oracle/baseline.h"
#include "records/bench.h"
#include "task/task.h"

namespace cupel::app {

/// Judges the kernels, then times the correct ones. Errors: also kUnsupported, for the emulator.
Result<records::Bench> Bench(const BenchOptions& options, Events& events);

/// Parses names of baselines, separated by commas ("eager,compile"), and adds `files`
/// (FILE.py:FUNCTION). "named" stands for all that the task names, "none" for none of these. Error:
/// an unknown name, a missing file, two functions of one name.
Result<std::vector<oracle::Baseline>> BaselinesOf(const std::string& names,
                                                  const std::vector<std::string>& files,
                                                  const task::Task& task);

}  // namespace cupel::app
