// Checks whether tasks are suitable for judging kernels. task_filter_report.cc has the results as
// data and as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"
#include "oracle/filter.h"
#include "oracle/filter_checks.h"
#include "task/task.h"

namespace cupel::app {

enum class FilterVerdict {
  kClean,
  kFlagged,
  kNotExamined,  // too large, too slow or not a valid task: see `message`
};
const char* Name(FilterVerdict verdict);  // "clean", "flagged", "not examined"

/// One setting of one direction.
struct FilteredSetting {
  task::Direction direction = task::Direction::kForward;
  task::Setting setting;
  FilterVerdict verdict = FilterVerdict::kClean;
  std::string message;  // why it was not examined
  std::vector<oracle::QualityCheck> checks;
  std::optional<oracle::TaskMeasures> measures;  // not set if the reference failed
};

struct FilteredTask {
  std::string name, path;
  std::string message;  // why it is not a valid task; otherwise empty
  std::vector<FilteredSetting> settings;

  /// "Flagged" if any setting is flagged; otherwise "not examined" if there is no setting, or any
  /// setting was not examined; otherwise "clean".
  FilterVerdict verdict() const;
};

struct FilterReport {
  std::vector<uint64_t> seeds;
  int64_t seconds = 0;  // the deadline of a setting
  std::vector<FilteredTask> tasks;
  bool interrupted = false;  // the list is incomplete
  Status status;             // why it was interrupted
};

/// The number of tasks that a check flags: by cupel, and as published.
struct CheckCount {
  std::string check;
  int64_t cupel = 0, published = 0;
  bool has_published = false;
};
/// One entry for each check, in the order in which checks first appear.
std::vector<CheckCount> CountChecks(const FilterReport& report);

/// The document cupel.filter/1.
Json ToJson(const FilterReport& report);

/// Examines the tasks, also broken ones. Errors: wrong options. If the work is interrupted, the
/// report has the results so far.
Result<FilterReport> FilterTasks(const FilterOptions& options, Events& events);

}  // namespace cupel::app
