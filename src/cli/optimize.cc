// `cupel optimize`: evolves a kernel, in a run that can be killed, resumed and replayed.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <utility>

#include "app/candidate.h"
#include "app/profile/profile_call.h"
#include "app/search/run.h"
#include "app/search/run_summary.h"
#include "app/session.h"
#include "archive/archive.h"
#include "build/build.h"
#include "cli/commands.h"
#include "cli/evolve_run.h"
#include "cli/json_file.h"
#include "cli/optimize_config.h"
#include "cli/progress.h"
#include "evolve/conversations.h"
#include "evolve/evaluator.h"
#include "evolve/objective.h"
#include "evolve/operation.h"
#include "evolve/tuning.h"
#include "os/fd.h"
#include "report/run_text.h"
#include "review/calibration.h"

namespace cupel::cli {
namespace {

/// The source of the starting kernel; empty if models should write it. A Python answer also adds
/// its flags to the command.
Result<std::string> StartingKernel(OptimizeCommand& command, const task::Task& task,
                                   app::Events& events) {
  std::filesystem::path kernel = command.kernel;
  if (kernel.empty() && !command.translate) {
    kernel = task.baseline[static_cast<int>(DirectionOf(command.target))];
  }
  if (kernel.empty() && !command.search.models.specs.empty()) return std::string();
  if (kernel.empty()) {
    return Fail(ErrorCode::kNotFound, fmt::format("task {} has no baseline kernel", task.name),
                "give a kernel to start from with --kernel FILE, or let a model write one with "
                "--model SPEC");
  }
  TRY_ASSIGN(const app::CandidateFile file,
             OpenCandidate(kernel, &task, DirectionOf(command.target), command.common,
                           command.compile, events));
  return os::ReadFile(file.path, build::kMaxSourceBytes);
}

/// Fills `command` with the configuration and seed of the recorded run.
Result<std::pair<StoredRun, Recording>> ReadRecording(OptimizeCommand& command) {
  TRY_ASSIGN(const archive::Archive archive,
             archive::Archive::Open(std::filesystem::path(command.replay) / app::kRunFile,
                                    archive::Access::kReadOnly));
  TRY_ASSIGN(const archive::RunInfo info, archive.Run());
  TRY_ASSIGN(const Json config, ParseJson(info.config, "configuration of the run"));
  TRY_ASSIGN(StoredRun stored, FromJson(config, command));
  Recording recording;
  TRY_ASSIGN(recording.exchanges, evolve::RecordedExchanges(archive));
  TRY_ASSIGN(const auto events, archive.Events());
  for (const archive::Event& event : events) {
    if (event.kind != "generation") continue;
    TRY_ASSIGN(const Json detail, ParseJson(event.detail, "an event of the run"));
    TRY_ASSIGN(const int64_t number, JsonInt(detail, "generation", "an event of the run"));
    TRY_ASSIGN(recording.reading[static_cast<int>(number)],
               JsonBool(detail, "reads", "an event of the run"));
  }
  TRY_ASSIGN(const bool user_seed, JsonBool(config, "user_seed", "configuration of the run"));
  const bool evolves = !command.search.models.specs.empty();
  if (!evolves && !user_seed) {
    return Fail(ErrorCode::kInvalidArgument,
                "a run without models can be replayed only if it was started with --seed",
                "start a new run with --seed");
  }
  command.common.seed = info.seed;
  return std::pair{std::move(stored), std::move(recording)};
}

Status Conclude(const OptimizeCommand& command, app::OpenRun& run) {
  TRY_ASSIGN(const app::RunSummary summary, app::Summarise(run.archive));
  if (summary.best) {
    TRY(os::WriteFileAtomically(run.folder / app::kBestFile, summary.best_source));
  }
  TRY(os::WriteFileAtomically(run.folder / app::kReportFile, summary.html));
  TRY(WriteJson(command.show.json, summary.json));
  fmt::print("{}Report: {}\n", report::RunText(summary.run, run.folder.string(), app::kBestFile),
             (run.folder / app::kReportFile).string());
  return {};
}

void Announce(const OptimizeCommand& command, const app::OpenRun& run, const task::Task& task,
              engine::Engine& engine) {
  if (command.show.quiet) return;
  const bool measured = engine.Name() == "gpu";
  fmt::print("run {}   ({}; {})\n", run.folder.string(), task.name,
             measured
                 ? fmt::format("{} measured on {}", command.objective, engine.Device().full_name)
                 : fmt::format("all times are emulator estimates for {}, not measurements",
                               command.common.model));
  std::fflush(stdout);
}

/// Prepares what a new run stores.
Result<StoredRun> Prepare(const OptimizeCommand& command, std::string start, const task::Task& task,
                          app::Session& session) {
  StoredRun stored;
  stored.start = std::move(start);
  if (command.search.models.specs.empty()) return stored;
  TRY_ASSIGN(const evolve::Operation operation,
             evolve::Describe(task, DirectionOf(command.target), session.oracle(),
                              session.engine().Device()));
  stored.operation = Text(operation);
  if (!command.search.calibration.empty()) {
    TRY_ASSIGN(stored.review, review::ReadCalibration(command.search.calibration));
  }
  return stored;
}

}  // namespace

Result<int> Run(const OptimizeCommand& given) {
  OptimizeCommand command = given;
  ProgressView view(command.show.quiet);
  std::optional<app::OpenRun> run;
  std::optional<StoredRun> stored;
  std::optional<Recording> recording;
  if (!command.resume.empty()) {
    TRY_ASSIGN(run, app::ResumeRun(command.resume));
    TRY_ASSIGN(const Json config, ParseJson(run->info.config, "configuration of the run"));
    TRY_ASSIGN(stored, FromJson(config, command));
  } else if (!command.replay.empty()) {
    TRY_ASSIGN(auto read, ReadRecording(command));
    stored = std::move(read.first);
    recording = std::move(read.second);
  }
  TRY_ASSIGN(const task::Task task, LoadTarget(command.target, command.common));
  if (run) TRY(CheckTask(*run, task, DirectionOf(command.target)));
  std::string start;
  if (!stored) {
    TRY_ASSIGN(start, StartingKernel(command, task, view));
  }
  TRY_ASSIGN(auto session, app::Session::Create(command.common, command.compile, view, true));
  TRY_ASSIGN(const auto objective, MakeObjective(command.objective, *session, view));
  if (!stored) {
    TRY_ASSIGN(stored, Prepare(command, std::move(start), task, *session));
  }
  if (!run) {
    TRY_ASSIGN(run, StartRun(command.run, task, DirectionOf(command.target), command.common,
                             ToJson(command, *stored)));
  }
  Announce(command, *run, task, session->engine());

  const bool evolves = !command.search.models.specs.empty();
  evolve::EvaluatorOptions options;
  options.device = session->engine().Device();
  options.seed = run->info.seed;
  // A run with models must be replayable, so all its cases come from the run's seed. It is secret.
  options.user_seed = run->user_seed || evolves;
  TRY_ASSIGN(options.source_folder, CandidatesFolder(*run));
  if (command.search.lint) {
    options.remarks = [&](const std::filesystem::path& kernel) {
      return app::LinterRemarks(kernel, session->parts().build);
    };
  }
  TRY_ASSIGN(const std::optional<int> gpu, GpuOf(command.common));
  if (gpu && evolves) {
    options.profile = [&](const build::Image& image, const plan::Plan& plan,
                          const std::string& setting) {
      view.Show(assay::Progress{"profiling", 0, 0});
      return app::ProfilePage(
          *session, {task, DirectionOf(command.target), run->info.seed, image, plan, setting},
          *gpu);
    };
  }
  evolve::Evaluator evaluator({run->archive, session->assay(), *objective},
                              RunQuestion(task, command.target), options,
                              [&](const evolve::RunProgress& p) { view.Show(p); });
  if (!evolves) evaluator.shown().budget = command.candidates + 1;
  const auto result = evolves ? EvolveRun(command, *run, *stored, evaluator, objective->Kind(),
                                          recording ? &*recording : nullptr)
                              : evolve::Tune(run->archive, evaluator, stored->start,
                                             {command.candidates, command.batch, run->info.seed});
  view.End();
  if (!result) {
    TRY_ASSIGN(Error error, StopEarly(*run, result.error(), "optimize"));
    TRY(Conclude(command, *run));
    return tl::unexpected(std::move(error));
  }
  TRY(run->archive.SetStatus(archive::RunStatus::kFinished));
  TRY(Conclude(command, *run));
  if (!result->end.empty() && !command.show.quiet) {
    fmt::print("The run ended: {}.\n", result->end);
  }
  return result->start_accepted ? 0 : 1;
}

}  // namespace cupel::cli
