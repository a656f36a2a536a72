// `cupel task import`: Python files with an nn.Module become task folders. task_import.cc imports
// and writes, task_import_stages.cc runs what was imported, task_import_report.cc tells.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/options.h"
#include "cli/task_filter.h"
#include "oracle/importer.h"

namespace cupel::cli {

/// How far an imported task came when it was run.
struct StageResult {
  std::string verdict;  // oracle: ran, failed, not run; filter: clean, flagged, not examined; or ""
  std::string message;
};

/// One problem of a report.
struct ImportedProblem {
  std::string name, path, sha256;
  std::string refusal;         // why it is no task; else empty
  bool already_there = false;  // its folder was, and nothing was done
  std::string folder;          // where it was written; may be empty
  Json sizes = Json::object(), reduced = Json::object();
  std::vector<std::string> arguments, notes;
  bool functional = false;
  std::string compared;
  std::string at;  // the smaller sizes at which it was run; empty: its own
  StageResult oracle, filter;
  double seconds = 0;
};

struct ImportReport {
  int64_t seconds = 0, memory = 0;  // the bounds of a problem
  std::vector<ImportedProblem> problems;
  bool interrupted = false;
};

/// A file that is to be imported; nothing is known of it yet but its hash, or why it cannot be
/// read.
ImportedProblem ProblemOf(const TaskFile& file);
/// Whether its folder is there and must not be written anew; then that is its refusal.
bool IsThere(const ImportCommand& command, const std::filesystem::path& folder,
             ImportedProblem& problem);
/// Takes what the importer says of it.
void Take(const oracle::Imported& imported, ImportedProblem& problem);

/// Writes an imported task. kInvalidArgument when the folder exists and `force` is not given.
Status WriteImported(const std::filesystem::path& problem, const oracle::Imported& imported,
                     const std::filesystem::path& folder, bool force);

/// Runs imported tasks: the oracle, then the filters. One object a thread.
class ImportStages {
 public:
  static Result<std::unique_ptr<ImportStages>> Create(const ImportCommand& command);
  ~ImportStages();
  /// At the task's own sizes if their cost lies within the bounds, else at the reduced ones.
  Status Run(const std::filesystem::path& folder, const oracle::Imported& imported,
             ImportedProblem& problem);

 private:
  struct Impl;
  explicit ImportStages(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// cupel.import/1
Json ImportJson(const ImportReport& report);
/// The problems of an earlier report with the same bounds; empty when there is none.
Result<std::vector<ImportedProblem>> EarlierImports(const std::filesystem::path& file,
                                                    const ImportReport& report);
/// A line for each problem that is not a clean task, and counts.
std::string ImportSummary(const ImportReport& report);
/// `cupel task import --report`.
Result<int> RunImportReport(const ImportCommand& command, const std::vector<TaskFile>& files);

/// The options of an importer in this installation.
Result<oracle::ImportOptions> ImporterOptions(const Common& common, int seconds, uint64_t memory);
oracle::ImportRequest RequestOf(const ImportCommand& command, const TaskFile& file);

}  // namespace cupel::cli
