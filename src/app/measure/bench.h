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

namespace cupel::app {

/// Judges the kernels, then times the correct ones. Errors: also kUnsupported, for the emulator.
Result<records::Bench> Bench(const BenchOptions& options, Events& events);

/// Parses names of baselines, separated by commas ("eager,compile"). "none" gives an empty list.
/// Error: an unknown name.
Result<std::vector<oracle::BaselineKind>> BaselinesOf(const std::string& names);

}  // namespace cupel::app
