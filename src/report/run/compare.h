// Compares runs, for example of an ablation: how their configurations differ, and the result and
// cost of each. Runs that differ only in their seed are one configuration, reported by median and
// range.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "report/run/run.h"

namespace cupel::report {

/// The compared values of one run. Gains are start over best, above 1 is faster.
struct ComparedRun {
  std::string name;  // as the user named it
  std::string status, unit;
  uint64_t seed = 0;
  int64_t candidates = 0, judged = 0, accepted = 0;
  std::optional<double> best, gain;
  std::optional<double> over_eager, over_compile;  // PyTorch's time over the best
  std::optional<double> floor_share;               // the least time to move the data over the best
  std::optional<int> best_generation;
  RunSpent spent;
  std::optional<RunSpent> to_best;
  std::vector<std::pair<int, double>> by_generation;  // gain at the end of each
  std::vector<std::pair<int64_t, double>> by_judged;  // gain at each change, and at the end

  std::optional<double> accepted_share() const;
};

/// A value over those runs of a configuration that have it.
struct Spread {
  double median = 0, low = 0, high = 0;
  size_t runs = 0;
};

struct Configuration {
  std::string label;                // "A", "B" …
  std::vector<std::string> values;  // for each of the differences; empty: not set
  std::vector<size_t> runs;         // indices
};

struct RunComparison {
  std::string subject;                   // "mnist_linear forward", if equal for all runs
  std::string best_title;                // "best, us (estimate)", if all minimise the same
  std::vector<std::string> differences;  // paths in the configuration, "run.task" …
  std::vector<Configuration> configurations;
  std::vector<ComparedRun> runs;
  std::vector<std::string> notes;

  /// Nullopt if no run has the value.
  std::optional<Spread> SpreadOf(
      const Configuration& configuration,
      const std::function<std::optional<double>(const ComparedRun&)>& value) const;
};

/// A value that is reported for each configuration.
struct ComparedValue {
  const char* key;    // in JSON
  const char* title;  // for display
  enum class Form { kNumber, kCount, kShare, kDollars, kSeconds, kTimes } form;
  std::optional<double> (*of)(const ComparedRun& run);
};
const std::vector<ComparedValue>& ComparedValues();
std::string Show(double value, ComparedValue::Form form);

/// `names[i]` is the name of `runs[i]`.
RunComparison CompareRuns(const std::vector<Run>& runs, const std::vector<std::string>& names);

/// "cupel.run-comparison/1" (docs/formats/run.md).
Json ToJson(const RunComparison& comparison);
std::string ComparisonText(const RunComparison& comparison);
std::string ComparisonHtml(const RunComparison& comparison);

}  // namespace cupel::report
