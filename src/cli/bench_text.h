// What `cupel bench` found: a table that is read at a glance, and the same facts as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "assay/bench.h"
#include "judge/verdict.h"

namespace cupel::cli {

struct BenchedKernel {
  std::string name;
  judge::Verdict verdict;
};

struct BenchReport {
  std::string task, direction, gpu, torch;
  engine::Ceilings ceilings;
  std::vector<BenchedKernel> kernels;
  std::vector<assay::SettingTimes> settings;
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
