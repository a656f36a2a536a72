// `cupel task import`: makes task folders from Python files with an nn.Module. task_import.cc
// imports and writes them, task_import_stages.cc runs them, task_import_report.cc reports on them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/tasks/task_files.h"
#include "base/json.h"
#include "base/result.h"
#include "cli/options.h"
#include "cli/task_filter.h"
#include "oracle/importer.h"

namespace cupel::cli {

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
};

/// A problem before its import. It only has a hash, or the reason why the file cannot be read.
ImportedProblem ProblemOf(const app::TaskFile& file);
/// Whether the task's folder exists and must not be overwritten. If so, sets the refusal.
bool FolderExists(const ImportCommand& command, const std::filesystem::path& folder,
                  ImportedProblem& problem);
/// Copies the importer's results into `problem`.
void Take(const oracle::Imported& imported, ImportedProblem& problem);

/// Writes an imported task. Error: kInvalidArgument if the folder exists and `force` is false.
Status WriteImported(const std::filesystem::path& problem, const oracle::Imported& imported,
                     const std::filesystem::path& folder, bool force);

/// Runs imported tasks: the oracle, then the filters. Not thread-safe; use one object per thread.
class ImportStages {
 public:
  static Result<std::unique_ptr<ImportStages>> Create(const ImportCommand& command);
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
Json ImportJson(const ImportReport& report);
/// The problems of an earlier report with the same limits; empty if there is none.
Result<std::vector<ImportedProblem>> EarlierImports(const std::filesystem::path& file,
                                                    const ImportReport& report);
/// One line for each problem that is not a clean task, and counts.
std::string ImportSummary(const ImportReport& report);
/// Runs `cupel task import --report`.
Result<int> RunImportReport(const ImportCommand& command, const std::vector<app::TaskFile>& files);

oracle::ImportRequest RequestOf(const ImportCommand& command, const app::TaskFile& file);

}  // namespace cupel::cli
