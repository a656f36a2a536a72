// A candidate as the user names it: a .cu file, several files, or a Python program. Programs are
// recorded as they are. Some use cases need one .cu file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "app/options.h"
#include "assay/assay.h"
#include "base/events.h"
#include "base/result.h"

namespace cupel::app {

/// Whether the file name is *.cu or *.py.
bool IsCandidateName(const std::filesystem::path& kernel);

/// Error: kUnsupported if `kernel` is a folder.
Status RequireOneFile(const std::filesystem::path& kernel);

/// Why a use case does not take a Python program, after "it is a Python program, and ", and what to
/// do.
struct OneFileOnly {
  const char* why;
  const char* remedy;
};
/// Errors: kUnsupported if `kernel` is a folder or a Python program.
Status RequireCudaFile(const std::filesystem::path& kernel, const OneFileOnly& reason);

/// Builds a .cu file, a candidate of several files or of a setup.py, or opens a Python program.
/// Thread-safe. Reports what the compiler does to `events`.
Result<assay::Candidate> BuildCandidate(const std::filesystem::path& kernel, const Common& common,
                                        const Compile& compile, Events& events);
/// Reports the candidate's notes.
void ReportNotes(const assay::Candidate& candidate, Events& events);

}  // namespace cupel::app
