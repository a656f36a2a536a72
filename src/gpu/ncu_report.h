// What Nsight Compute's command line prints of a report as CSV: metrics by their own names (page
// "raw") and its rules' advice (page "details"). Columns are found by their titles, so that those
// which versions add or leave out do no harm.
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
  std::string scope;            // of the speedup: "global" (of the kernel) or "local"
  double speedup_percent = -1;  // estimated; -1: not estimated
};

/// One launch.
struct NcuKernel {
  std::string id;    // of the launch in the report
  std::string name;  // as the report names it
  plan::Dim3 grid, block;
  std::map<std::string, NcuMetric> metrics;  // those that are one number
  std::vector<NcuRule> rules;

  std::optional<double> Get(const std::string& metric) const;
};

/// `ncu --import R --page raw --csv`: a line of names, one of units, then a line a launch.
Result<std::vector<NcuKernel>> ParseNcuRaw(std::string_view text);

/// `ncu --import R --page details --csv`: lines of rules among lines of metrics. Adds the rules to
/// the launches that they are about.
Status AddNcuRules(std::string_view text, std::vector<NcuKernel>* kernels);

}  // namespace cupel::gpu
