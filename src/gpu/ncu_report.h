// Reads reports that Nsight Compute's command line program prints as CSV: metrics with their names
// (page "raw") and the advice of its rules (page "details"). Columns are found by their titles, so
// versions may add or omit columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/plan.h"

namespace cupel::gpu {

struct NcuMetric {
  double value = 0;
  std::string unit;  // "ns", "byte", "%"
};

struct NcuRule {
  std::string section, name;  // "Memory Workload Analysis", "MemoryCacheAccessPattern"
  std::string type;           // "OPT", "WRN", "INF"
  std::string text;
  std::string scope;            // of the speedup: "global" (whole kernel) or "local"
  double speedup_percent = -1;  // estimated; -1: not estimated
};

/// One launch.
struct NcuKernel {
  std::string id;    // of the launch in the report
  std::string name;  // as in the report
  plan::Dim3 grid, block;
  std::map<std::string, NcuMetric> metrics;  // only metrics with a single number
  std::vector<NcuRule> rules;

  std::optional<double> Get(const std::string& metric) const;
};

/// Parses `ncu --import R --page raw --csv`: a line of names, a line of units, then a line per
/// launch.
Result<std::vector<NcuKernel>> ParseNcuRaw(std::string_view text);

/// Parses `ncu --import R --page details --csv`: lines of rules between lines of metrics. Adds the
/// rules to their launches.
Status AddNcuRules(std::string_view text, std::vector<NcuKernel>* kernels);

}  // namespace cupel::gpu
