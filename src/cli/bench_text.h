// What `cupel bench` found: a table that is read at a glance, and the same facts as JSON.
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

/// What a baseline took when it was last measured here.
struct Remembered {
  std::string setting, name;
  oracle::BaselineMedians medians;
};

struct BenchReport {
  std::string task, direction, gpu, torch;
  engine::Ceilings ceilings;
  std::vector<BenchedKernel> kernels;
  std::vector<assay::SettingTimes> settings;
  std::vector<Remembered> remembered;  // of baselines that were not asked for
};

struct BenchTextOptions {
  bool colour = false;
};

std::string BenchText(const BenchReport& report, const BenchTextOptions& options);
/// "cupel.bench/1".
Json BenchJson(const BenchReport& report);

/// "eager,compile": names of baselines; "none" is no one.
Result<std::vector<oracle::BaselineKind>> BaselinesOf(const std::string& names);

}  // namespace cupel::cli
