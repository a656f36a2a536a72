// The results of `cupel bench`, as a table and as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "assay/bench.h"
#include "judge/verdict.h"
#include "oracle/baseline_cache.h"

namespace cupel::cli {

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

struct BenchTextOptions {
  bool colour = false;
};

std::string BenchText(const BenchReport& report, const BenchTextOptions& options);
/// The document "cupel.bench/1".
Json BenchJson(const BenchReport& report);

/// Parses names of baselines, separated by commas ("eager,compile"). "none" gives an empty list.
/// Error: an unknown name.
Result<std::vector<oracle::BaselineKind>> BaselinesOf(const std::string& names);

}  // namespace cupel::cli
