// Makes task folders from Python files with an nn.Module. task_import.cc imports and writes them,
// task_import_stages.cc runs them, task_import_report.cc reports on them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/options.h"
#include "app/tasks/task_files.h"
#include "app/tasks/task_filter.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"
#include "oracle/importer.h"

namespace cupel::app {

/// The result of one stage of running an imported task.
struct StageResult {
  std::string verdict;  // oracle: ran, failed, not run; filter: clean, flagged, not examined; or ""
  std::string message;
};

/// One problem of a report.
struct ImportedProblem {
  std::string name, path, sha256;
  std::string refusal;         // why it was not imported; otherwise empty
  bool already_there = false;  // its folder exists, so nothing was done
  std::string folder;          // the new task folder; may be empty
  Json sizes = Json::object(), reduced = Json::object();
  std::vector<std::string> arguments, notes;
  bool functional = false;
  std::string compared;
  std::string at;  // the smaller sizes at which it ran; empty: its own sizes
  StageResult oracle, filter;
  double seconds = 0;
};

struct ImportReport {
  int64_t seconds = 0, memory = 0;  // the limits for each problem
  std::vector<ImportedProblem> problems;
  bool interrupted = false;
  Status status;  // why it was interrupted
};

/// A problem before its import. It only has a hash, or the reason why the file cannot be read.
ImportedProblem ProblemOf(const TaskFile& file);
/// Whether the task's folder exists and must not be overwritten. If so, sets the refusal.
bool FolderExists(const ImportOptions& options, const std::filesystem::path& folder,
                  ImportedProblem& problem);
/// Copies the importer's results into `problem`.
void Take(const oracle::Imported& imported, ImportedProblem& problem);

/// Writes an imported task. Error: kInvalidArgument if the folder exists and `force` is false.
Status WriteImported(const std::filesystem::path& problem, const oracle::Imported& imported,
                     const std::filesystem::path& folder, bool force);

/// Runs imported tasks: the oracle, then the filters. Not thread-safe; use one object per thread.
class ImportStages {
 public:
  static Result<std::unique_ptr<ImportStages>> Create(const ImportOptions& options);
  ~ImportStages();
  /// Uses the task's own sizes if they are within the limits, otherwise the reduced sizes.
  Status Run(const std::filesystem::path& folder, const oracle::Imported& imported,
             ImportedProblem& problem);

 private:
  struct Impl;
  explicit ImportStages(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The document cupel.import/1.
Json ToJson(const ImportReport& report);
/// The problems of an earlier report with the same limits; empty if there is none.
Result<std::vector<ImportedProblem>> EarlierImports(const std::filesystem::path& file,
                                                    const ImportReport& report);
/// The number of problems that reached each stage.
struct ImportCounts {
  size_t problems = 0, imported = 0, ran = 0, reduced = 0, clean = 0, flagged = 0;
};
ImportCounts CountsOf(const ImportReport& report);

oracle::ImportRequest RequestOf(const ImportOptions& options, const TaskFile& file);

/// Imports the files, runs the tasks and the filters, and writes the report `options.report` after
/// each problem.
Result<ImportReport> ImportAndRun(const ImportOptions& options, const std::vector<TaskFile>& files,
                                  Events& events);

using OnImported = std::function<void(const ImportedProblem& problem)>;
/// Imports the files that the options name. Without `options.report`, calls `imported` after each;
/// otherwise as ImportAndRun. Errors: wrong options; cupel failed.
Result<ImportReport> ImportTasks(const ImportOptions& options, Events& events,
                                 const OnImported& imported);

}  // namespace cupel::app
