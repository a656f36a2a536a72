// `cupel task filter`: is a task worth judging kernels on? What was found of one task or a folder
// of them, as data; task_filter_text.cc shows it, task_filter_json.cc writes it, task_files.cc
// finds the tasks of a folder. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "oracle/filter.h"
#include "oracle/filter_checks.h"
#include "task/task.h"

namespace cupel::cli {

enum class FilterVerdict {
  kClean,
  kFlagged,
  kNotExamined,  // too large or too slow here, or no task at all: `message` says which
};
const char* Name(FilterVerdict verdict);  // "clean", "flagged", "not examined"

/// One setting of one direction.
struct FilteredSetting {
  task::Direction direction = task::Direction::kForward;
  task::Setting setting;
  FilterVerdict verdict = FilterVerdict::kClean;
  std::string message;  // why it was not examined
  std::vector<oracle::QualityCheck> checks;
  std::optional<oracle::TaskMeasures> measures;  // absent where the reference did not run through
};

struct FilteredTask {
  std::string name, path;
  std::string message;  // why it is no task; else empty
  std::vector<FilteredSetting> settings;

  /// Flagged where a setting is; else not examined where one is not, or where there is none.
  FilterVerdict verdict() const;
};

struct FilterReport {
  std::vector<uint64_t> seeds;
  int64_t seconds = 0;  // the deadline of a setting
  std::vector<FilteredTask> tasks;
  bool interrupted = false;  // the list is not whole
};

/// Flagged tasks by check: by cupel, and as published. In the order in which checks first appear.
struct CheckCount {
  std::string check;
  int64_t cupel = 0, published = 0;
  bool has_published = false;
};
std::vector<CheckCount> CountChecks(const FilterReport& report);

/// One task on a page: a table of checks for each setting, and what to do about each flag.
std::string FilterText(const FilteredTask& task);
/// A line for each task, and counts.
std::string FilterSummary(const FilterReport& report);
/// cupel.filter/1
Json FilterJson(const FilterReport& report);

/// A task in a folder of tasks: how it is called there, and what LoadTask takes.
struct TaskFile {
  std::string name;
  std::filesystem::path path;
};
/// Whether `folder` is one task in the folder format.
bool IsTaskFolder(const std::filesystem::path& folder);
/// Task folders and KernelBench problems (.py) in `folder` and in its folders, in the natural order
/// of their names. Errors: kNotFound when there is none.
Result<std::vector<TaskFile>> FindTaskFiles(const std::filesystem::path& folder);

}  // namespace cupel::cli
