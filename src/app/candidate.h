// A candidate as the user names it: a .cu file, several files, or a Python program. Programs are
// recorded as they are. For use cases that need a .cu file, cupel extracts one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/options.h"
#include "assay/assay.h"
#include "base/events.h"
#include "base/result.h"
#include "os/temp_dir.h"
#include "task/task.h"

namespace cupel::app {

/// Whether the file name is *.cu or *.py.
bool IsCandidateName(const std::filesystem::path& kernel);

struct CandidateFile {
  std::filesystem::path path;                 // the .cu file
  std::vector<std::string> flags;             // the answer's nvcc flags that are allowed
  std::vector<std::string> notes;             // what was assumed or ignored
  std::shared_ptr<const os::TempDir> folder;  // keeps an extracted file; null for a .cu file
};

/// Extracts a .cu file from a Python program; a .cu file stays as it is. `task` may be null: then
/// the answer defines the order of the arguments. Errors: kUnsupported; the message says in one
/// line what cupel could not follow, or that `kernel` is a folder.
Result<CandidateFile> ExtractCandidate(const std::filesystem::path& kernel, const task::Task* task,
                                       task::Direction direction, const Common& common);

/// The same for a build with `compile`. Adds the answer's flags to those of `compile`, and reports
/// the notes.
Result<CandidateFile> ExtractCandidate(const std::filesystem::path& kernel, const task::Task* task,
                                       task::Direction direction, const Common& common,
                                       Compile& compile, Events& events);

/// Builds an extracted candidate. `compile` must already have the answer's flags. Messages and
/// records name `kernel`.
Result<assay::Candidate> BuildCandidate(const std::filesystem::path& kernel,
                                        const CandidateFile& file, const Common& common,
                                        const Compile& compile);
/// Builds a .cu file, a candidate of several files or of a setup.py, or opens a Python program.
/// Thread-safe.
Result<assay::Candidate> BuildCandidate(const std::filesystem::path& kernel, const Common& common,
                                        const Compile& compile);
/// Reports the candidate's notes.
void ReportNotes(const assay::Candidate& candidate, Events& events);

struct ExtractReport {
  std::string source;              // the .cu file
  std::vector<std::string> flags;  // as in CandidateFile
  std::vector<std::string> notes;
};
/// Extracts the .cu file that the other use cases build. Errors: also kInvalidArgument if the file
/// is not a Python file.
Result<ExtractReport> Extract(const ExtractOptions& options);

}  // namespace cupel::app
