// The common part of runs of `cupel optimize` and `cupel translate`: a folder with an archive, the
// configuration in the archive, and the objective.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/options.h"
#include "app/session.h"
#include "archive/archive.h"
#include "assay/assay.h"
#include "evolve/form.h"
#include "evolve/objective.h"
#include "task/task.h"

namespace cupel::app {

/// The name of a run's configuration in error messages.
inline constexpr const char* kRunConfig = "configuration of the run";

// The configuration in the archive: everything that a resume or a replay needs.
Json RunJson(const Common& common, const Compile& compile, const Target& target);
Status ReadRun(const Json& json, Common& common, Compile& compile, Target& target);
Json BudgetJson(const ModelOptions& models);
/// Keeps a budget that `models` already has.
Status ReadBudget(const Json& json, ModelOptions& models);
Result<std::vector<std::string>> Strings(const Json& json, const char* key);
Status ReadInt(const Json& json, const char* key, int& into);

struct OpenRun {
  archive::Archive archive;
  archive::RunInfo info;
  std::filesystem::path folder;
  bool user_seed = false;
};

/// Creates the folder. An empty `folder` means a new folder below cupel-runs/.
Result<OpenRun> StartRun(std::filesystem::path folder, const task::Task& task,
                         task::Direction direction, const Common& common, const Json& config);
/// Opens a run to continue it. The caller reads the configuration, `info.config`.
Result<OpenRun> ResumeRun(const std::filesystem::path& folder);
/// Fails if the task has changed since the run was started.
Status CheckTask(const OpenRun& run, const task::Task& task, task::Direction direction);
/// Creates the folder for candidates, and returns it.
Result<std::filesystem::path> CandidatesFolder(const OpenRun& run);

/// Error kUnsupported: candidates of this form are not judged in the target's direction.
Status CheckForm(evolve::Form form, const Target& target);

/// The full question that every candidate of a run must pass.
assay::Question RunQuestion(const task::Task& task, const Target& target, const Common& common);

/// `aim` is "time", "energy" or "mix". The session's engine decides whether times are estimated or
/// measured. The session must outlive the objective.
Result<std::unique_ptr<evolve::Objective>> MakeObjective(const std::string& aim, Session& session);
/// For evolve::EvaluatorOptions::objective_text.
std::function<std::string(double)> ObjectiveTextOf(const evolve::Objective& objective);

/// clang-tidy's remarks for evolve::EvaluatorOptions::remarks; empty if clang-tidy fails.
std::string LinterRemarks(const std::filesystem::path& kernel, const build::Options& options);

/// Marks the run as stopped, e.g. when it was interrupted or no model can be asked. The run can be
/// continued. Returns the error that the command should end with.
Result<Error> StopEarly(OpenRun& run, const Error& error, const char* command);

}  // namespace cupel::app
