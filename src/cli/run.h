// What the runs of `cupel optimize` and `cupel translate` have in common: a folder with an archive,
// what was asked as the archive keeps it, and what is minimised.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "assay/assay.h"
#include "cli/options.h"
#include "cli/session.h"
#include "evolve/objective.h"
#include "task/task.h"

namespace cupel::cli {

/// How messages call what a run was started with.
inline constexpr const char* kRunConfig = "configuration of the run";

// The archive's configuration: all that a resume or a replay must know.
Json RunJson(const Common& common, const Compile& compile, const Target& target);
Status ReadRun(const Json& json, Common& common, Compile& compile, Target& target);
Json BudgetJson(const ModelOptions& models);
/// A budget that `models` has already stays.
Status ReadBudget(const Json& json, ModelOptions& models);
Result<std::vector<std::string>> Strings(const Json& json, const char* key);
Status ReadInt(const Json& json, const char* key, int& into);

struct OpenRun {
  archive::Archive archive;
  archive::RunInfo info;
  std::filesystem::path folder;
  bool user_seed = false;
};

/// Makes the folder; an empty one is a new one below cupel-runs/.
Result<OpenRun> StartRun(std::filesystem::path folder, const task::Task& task,
                         task::Direction direction, const Common& common, const Json& config);
/// As the archive has it; the caller reads `info.config`.
Result<OpenRun> ResumeRun(const std::filesystem::path& folder);
/// Error: the task is not what it was.
Status CheckTask(const OpenRun& run, const task::Task& task, task::Direction direction);
/// Where candidates are written; made here.
Result<std::filesystem::path> CandidatesFolder(const OpenRun& run);

/// What every candidate of a run is asked in the end.
assay::Question RunQuestion(const task::Task& task, const Target& target);

/// `aim`: "time", "energy", "mix"; by the engine that the session uses.
Result<std::unique_ptr<evolve::Objective>> MakeObjective(
    const std::string& aim, Session& session, std::function<void(const assay::Progress&)> progress);

/// For evolve::EvaluatorOptions::remarks: clang-tidy's, where it can read the kernel.
std::string LinterRemarks(const std::filesystem::path& kernel, const build::Options& options);

/// Interrupted, or nobody to ask: the run can go on. The error to end with.
Result<Error> StopEarly(OpenRun& run, const Error& error, const char* command);

}  // namespace cupel::cli
