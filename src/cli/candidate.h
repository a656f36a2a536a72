// A candidate as the user names it: a .cu file, or a KernelBench answer in Python, of which one is
// extracted. Every command that takes a kernel opens it here. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "assay/assay.h"
#include "base/result.h"
#include "cli/options.h"
#include "os/fd.h"
#include "task/task.h"

namespace cupel::cli {

/// By its name: *.cu or *.py.
bool IsCandidateName(const std::filesystem::path& kernel);

struct CandidateFile {
  std::filesystem::path path;      // the .cu to build
  std::vector<std::string> flags;  // that an answer gives nvcc, as far as they are allowed
  std::vector<std::string> notes;  // what was assumed, and what was left out
  std::shared_ptr<const os::TempDir> folder;  // of an extracted file
};

/// `task` may be null: then an answer's own order of arguments stands. Errors: kUnsupported, with
/// what could not be followed in one line.
Result<CandidateFile> OpenCandidate(const std::filesystem::path& kernel, const task::Task* task,
                                    task::Direction direction, const Common& common);

/// The same for a command that builds with `compile`, whose flags the answer's are added to; tells
/// the notes unless --quiet.
Result<CandidateFile> OpenCandidate(const std::filesystem::path& kernel, const task::Task* task,
                                    task::Direction direction, const Common& common,
                                    Compile& compile);

/// Builds what was opened, with the `compile` that has its flags. Messages and records name
/// `kernel`.
Result<assay::Candidate> BuildCandidate(const std::filesystem::path& kernel,
                                        const CandidateFile& file, const Compile& compile);
/// Opens and builds; thread-safe.
Result<assay::Candidate> BuildCandidate(const std::filesystem::path& kernel, const task::Task& task,
                                        task::Direction direction, const Common& common,
                                        Compile compile);

}  // namespace cupel::cli
