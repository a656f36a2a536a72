// SPDX-License-Identifier: Apache-2.0
#include "app/search/optimize.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "app/candidate.h"
#include "app/models.h"
#include "app/profile/profile_call.h"
#include "app/search/evolve_run.h"
#include "app/search/optimize_config.h"
#include "app/search/references.h"
#include "app/search/run.h"
#include "app/search/run_summary.h"
#include "app/session.h"
#include "archive/archive.h"
#include "base/part_events.h"
#include "build/build.h"
#include "evolve/conversations.h"
#include "evolve/evaluator.h"
#include "evolve/objective.h"
#include "evolve/operation.h"
#include "evolve/tuning.h"
#include "os/files.h"
#include "review/calibration.h"

namespace cupel::app {
namespace {

/// The starting kernel and its form; the source is empty if models should write it.
Result<StoredRun> StartingKernel(const OptimizeOptions& options, const task::Task& task) {
  StoredRun start;
  std::filesystem::path kernel = options.kernel;
  if (kernel.empty() && !options.translate) {
    kernel = task.baseline[static_cast<int>(DirectionOf(options.target))];
  }
  if (!options.form.empty() && !kernel.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "--form is for a start that models write",
                "give --translate, or leave --form out: candidates have the form of the start");
  }
  if (kernel.empty() && !options.search.models.specs.empty()) {
    start.form = evolve::FormNamed(options.form).value_or(evolve::Form::kCuda);
    TRY(CheckForm(start.form, options.target));
    return start;
  }
  if (kernel.empty()) {
    return Fail(ErrorCode::kNotFound, fmt::format("task {} has no baseline kernel", task.name),
                "give a kernel to start from with --kernel FILE, or let a model write one with "
                "--model SPEC");
  }
  TRY(RequireOneFile(kernel));
  if (kernel.extension() == ".py") start.form = evolve::Form::kPython;
  TRY(CheckForm(start.form, options.target));
  TRY_ASSIGN(start.start, os::ReadFile(kernel, build::kMaxSourceBytes));
  return start;
}

/// Fills `options` with the configuration and seed of the recorded run.
Result<std::pair<StoredRun, Recording>> ReadRecording(OptimizeOptions& options) {
  TRY_ASSIGN(const archive::Archive archive,
             archive::Archive::Open(std::filesystem::path(options.replay) / kRunFile,
                                    archive::Access::kReadOnly));
  TRY_ASSIGN(const archive::RunInfo info, archive.Run());
  TRY_ASSIGN(const Json config, ParseJson(info.config, "configuration of the run"));
  TRY_ASSIGN(StoredRun stored, FromJson(config, options));
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
  const bool evolves = !options.search.models.specs.empty();
  if (!evolves && !user_seed) {
    return Fail(ErrorCode::kInvalidArgument,
                "a run without models can be replayed only if it was started with --seed",
                "start a new run with --seed");
  }
  options.common.seed = info.seed;
  return std::pair{std::move(stored), std::move(recording)};
}

/// Writes the best kernel and the page into the run's folder.
Status Conclude(const OpenRun& run, OptimizeReport& report) {
  report.folder = run.folder;
  TRY_ASSIGN(report.summary, Summarise(run.archive));
  TRY(WriteBest(report.summary, run.folder));
  return os::WriteFileAtomically(run.folder / kReportFile, report.summary.html);
}

/// Prepares what a new run stores.
Result<StoredRun> Prepare(const OptimizeOptions& options, StoredRun stored, const task::Task& task,
                          Session& session) {
  if (options.search.models.specs.empty()) return stored;
  TRY_ASSIGN(evolve::Operation operation,
             evolve::Describe(task, DirectionOf(options.target), session.oracle(),
                              session.engine().Device()));
  operation.form = stored.form;
  operation.operators = OperatorsOf(options.target);
  stored.operation = Text(operation);
  stored.fit = {DirectionOf(options.target) == task::Direction::kBackward,
                operation.has_float32,
                operation.has_16bit,
                operation.has_products,
                operation.has_statistics,
                operation.device.major == 9,
                ""};
  if (!options.search.calibration.empty()) {
    TRY_ASSIGN(stored.review, review::ReadCalibration(options.search.calibration));
  }
  for (const std::string& folder : options.search.lessons) {
    TRY_ASSIGN(const archive::Archive archive,
               archive::Archive::Open(std::filesystem::path(folder) / kRunFile,
                                      archive::Access::kReadOnly));
    TRY_ASSIGN(auto ideas, evolve::ProvenIdeasOf(archive, folder));
    std::ranges::move(ideas, std::back_inserter(stored.proven));
  }
  return stored;
}

}  // namespace

Result<OptimizeReport> Optimize(const OptimizeOptions& given, Events& events,
                                const OnRunStarted& started) {
  OptimizeOptions options = given;
  if (options.stop_at > 0 && options.objective != "time") {
    return Fail(ErrorCode::kInvalidArgument, "--stop-at is a share of a speed",
                "use it with --objective time");
  }
  // Before a run is made that could not continue.
  if (!options.search.models.specs.empty()) TRY(SpecsOf(options.search.models));
  TRY(llm::ParseModelSpecs(options.search.reviewers));
  std::optional<OpenRun> run;
  std::optional<StoredRun> stored;
  std::optional<Recording> recording;
  if (!options.resume.empty()) {
    TRY_ASSIGN(run, ResumeRun(options.resume));
    TRY_ASSIGN(const Json config, ParseJson(run->info.config, kRunConfig));
    TRY_ASSIGN(stored, FromJson(config, options));
  } else if (!options.replay.empty()) {
    TRY_ASSIGN(auto read, ReadRecording(options));
    stored = std::move(read.first);
    recording = std::move(read.second);
  }
  TRY_ASSIGN(const task::Task task, LoadTarget(options.target, options.common));
  if (run) TRY(CheckTask(*run, task, DirectionOf(options.target)));
  StoredRun start;
  if (!stored) {
    TRY_ASSIGN(start, StartingKernel(options, task));
  }
  PartEvents parts(events);
  TRY_ASSIGN(auto session, Session::Create(options.common, options.compile, parts, true));
  TRY_ASSIGN(const auto objective, MakeObjective(options.objective, *session));
  if (!stored) {
    TRY_ASSIGN(stored, Prepare(options, std::move(start), task, *session));
  }
  if (!run) {
    TRY_ASSIGN(run, StartRun(options.run, task, DirectionOf(options.target), options.common,
                             ToJson(options, *stored)));
  }
  const engine::Engine& engine = session->engine();
  started({run->folder, task.name, options.objective, options.common.model,
           engine.Name() == "gpu" ? engine.Device().full_name : std::string()});

  const bool evolves = !options.search.models.specs.empty();
  evolve::EvaluatorOptions evaluating;
  evaluating.device = engine.Device();
  evaluating.form = stored->form;
  evaluating.seed = run->info.seed;
  evaluating.stop = options.common.stop;
  evaluating.objective_text = ObjectiveTextOf(*objective);
  // A run with models must be replayable, so all its cases come from the run's seed. It is secret.
  evaluating.user_seed = run->user_seed || evolves;
  TRY_ASSIGN(evaluating.source_folder, CandidatesFolder(*run));
  if (options.search.lint && stored->form == evolve::Form::kCuda) {
    evaluating.remarks = [&](const std::filesystem::path& kernel) {
      return LinterRemarks(kernel, session->parts().build);
    };
  }
  TRY_ASSIGN(const std::optional<int> gpu, GpuOf(options.common));
  if (gpu && evolves) {
    evaluating.profile = [&](const assay::Judged& judged) {
      parts.Show({"profiling"});
      return ProfilePage(*session, {task, DirectionOf(options.target), run->info.seed, judged},
                         *gpu);
    };
  }
  evolve::Evaluator evaluator(
      {run->archive, session->assay(), *objective, parts, session->emulator()},
      RunQuestion(task, options.target, options.common), evaluating);
  if (!evolves) evaluator.scale().budget = options.candidates + 1;
  const auto search = [&]() -> Result<evolve::RunResult> {
    const task::Direction direction = DirectionOf(options.target);
    TRY_ASSIGN(const References references,
               ReferencesOf(*run, *session, task, direction, options.target));
    const bool stops = options.stop_at > 0 && options.objective == "time";
    const double stop_below = stops ? references.floor_us / options.stop_at : 0;
    auto found =
        evolves ? EvolveRun(options, *run, *stored, evaluator, recording ? &*recording : nullptr,
                            references, stop_below)
                : evolve::Tune(run->archive, evaluator, stored->start,
                               {options.candidates, options.batch, run->info.seed, stop_below});
    if (!found || !gpu || options.objective != "time") return found;
    TRY_ASSIGN(const auto best, run->archive.Best());
    if (!best) return found;
    const Status timed = TimePyTorch(*run, *session, task, direction, options.target,
                                     evaluator.SourcePath(best->id), best->id, parts);
    if (!timed && timed.error().code == ErrorCode::kCancelled) return tl::unexpected(timed.error());
    // The search itself is complete.
    if (!timed) parts.Note("PyTorch is not timed: " + timed.error().message);
    return found;
  };
  const auto result = search();
  OptimizeReport report;
  if (!result) {
    TRY_ASSIGN(Error error, StopEarly(*run, result.error(), "optimize"));
    TRY(Conclude(*run, report));
    report.status = tl::unexpected(std::move(error));
    return report;
  }
  TRY(run->archive.SetStatus(archive::RunStatus::kFinished));
  TRY(Conclude(*run, report));
  report.end = result->end;
  report.start_accepted = result->start_accepted;
  return report;
}

}  // namespace cupel::app
