// Times kernels on a GPU against eager PyTorch, torch.compile and each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/options.h"
#include "assay/bench.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"
#include "judge/verdict.h"
#include "oracle/baseline.h"
#include "oracle/baseline_cache.h"

namespace cupel::app {

struct BenchedKernel {
  std::string name;
  judge::Verdict verdict;
};

/// A baseline's times from the last time it was measured on this machine.
struct CachedBaseline {
  std::string setting, name;
  oracle::BaselineMedians medians;
};

struct BenchReport {
  std::string task, direction, gpu, torch;
  engine::Ceilings ceilings;
  std::vector<BenchedKernel> kernels;
  std::vector<assay::SettingTimes> settings;
  std::vector<CachedBaseline> cached_baselines;  // baselines that were not measured now
};

/// Judges the kernels, then times the correct ones. Errors: also kUnsupported, for the emulator.
Result<BenchReport> Bench(const BenchOptions& options, Events& events);
/// The document "cupel.bench/1".
Json ToJson(const BenchReport& report);

/// Parses names of baselines, separated by commas ("eager,compile"). "none" gives an empty list.
/// Error: an unknown name.
Result<std::vector<oracle::BaselineKind>> BaselinesOf(const std::string& names);

}  // namespace cupel::app
