// `cupel optimize`: evolves a kernel, in a run that can be killed, resumed and replayed.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>
#include <utility>

#include "archive/archive.h"
#include "base/hash.h"
#include "base/version.h"
#include "cli/ceilings.h"
#include "cli/commands.h"
#include "cli/models.h"
#include "cli/optimize_config.h"
#include "cli/progress.h"
#include "cli/run_summary.h"
#include "cli/session.h"
#include "evolve/conversations.h"
#include "evolve/evaluator.h"
#include "evolve/evolution.h"
#include "evolve/objective.h"
#include "evolve/operation.h"
#include "evolve/tuning.h"
#include "os/fd.h"
#include "os/process.h"
#include "report/objective_kind.h"

namespace cupel::cli {
namespace {

constexpr size_t kMaxSourceBytes = 4u << 20;

/// What an earlier run recorded, for a replay of it.
struct Recording {
  std::vector<llm::Exchange> exchanges;
  std::map<int, bool> reading;  // whether reviewers were asked, by generation
};

struct OpenRun {
  archive::Archive archive;
  archive::RunInfo info;
  std::filesystem::path folder;
  StoredRun stored;
  bool user_seed = false;
};

/// "mnist_linear_relu-20260201-101500": unique enough for a folder of runs; a clash is an error.
std::string NewRunName(const task::Task& task) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
  return fmt::format("{}-{}", task.name, stamp);
}

Status MakeFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return {};
  return Fail(ErrorCode::kIo,
              fmt::format("cannot make the folder {}: {}", folder.string(), error.message()));
}

Result<std::string> StartingKernel(const OptimizeCommand& command, const task::Task& task) {
  std::filesystem::path kernel = command.kernel;
  if (kernel.empty()) kernel = task.baseline[static_cast<int>(DirectionOf(command.target))];
  if (kernel.empty()) {
    return Fail(ErrorCode::kNotFound, fmt::format("task {} has no baseline kernel", task.name),
                "name one to start from with --kernel FILE.cu, or have one written by cupel "
                "translate");
  }
  return os::ReadFile(kernel, kMaxSourceBytes);
}

Result<OpenRun> StartRun(const OptimizeCommand& command, const task::Task& task, StoredRun stored,
                         uint64_t seed) {
  std::filesystem::path folder = command.run;
  if (folder.empty()) folder = std::filesystem::path("cupel-runs") / NewRunName(task);
  TRY(MakeFolder(folder));
  archive::NewRun run;
  run.id = "run";
  run.task = task.name;
  run.direction = task::Name(DirectionOf(command.target));
  run.task_hash = task.content_hash[static_cast<int>(DirectionOf(command.target))];
  run.cupel_version = kVersion;
  run.seed = seed;
  run.config = DumpJson(ToJson(command, stored));
  TRY_ASSIGN(archive::Archive archive, archive::Archive::Create(folder / kRunFile, run));
  TRY(archive.AddEvent("started"));
  TRY_ASSIGN(archive::RunInfo info, archive.Run());
  return OpenRun{std::move(archive), std::move(info), folder, std::move(stored),
                 command.common.seed.has_value()};
}

Result<OpenRun> ResumeRun(OptimizeCommand& command) {
  const std::filesystem::path folder = command.resume;
  TRY_ASSIGN(archive::Archive archive, archive::Archive::Open(folder / kRunFile));
  TRY_ASSIGN(archive::RunInfo info, archive.Run());
  TRY_ASSIGN(const Json config, ParseJson(info.config, "configuration of the run"));
  TRY_ASSIGN(StoredRun stored, FromJson(config, command));
  TRY_ASSIGN(const bool user_seed, JsonBool(config, "user_seed", "configuration of the run"));
  TRY(archive.AddEvent("resumed"));
  TRY(archive.SetStatus(archive::RunStatus::kRunning));
  return OpenRun{std::move(archive), std::move(info), folder, std::move(stored), user_seed};
}

/// Fills `command` with what the recorded run was asked; its seed becomes the command's.
Result<std::pair<StoredRun, Recording>> ReadRecording(OptimizeCommand& command) {
  TRY_ASSIGN(const archive::Archive archive,
             archive::Archive::Open(std::filesystem::path(command.replay) / kRunFile,
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
                "start such a run with --seed");
  }
  command.common.seed = info.seed;
  return std::pair{std::move(stored), std::move(recording)};
}

/// What the run minimises, by the engine that it uses.
Result<std::unique_ptr<evolve::Objective>> MakeObjective(
    const OptimizeCommand& command, Session& session,
    std::function<void(const assay::Progress&)> progress) {
  const auto aim = evolve::AimNamed(command.objective);
  if (!aim) {
    return Fail(ErrorCode::kInvalidArgument, "no objective is called " + command.objective,
                "choose time, energy or mix");
  }
  if (session.engine().Name() != "gpu") {
    if (*aim == evolve::Aim::kTime) return evolve::MakeEstimate();
    return Fail(ErrorCode::kUnsupported,
                "unsupported: the emulator estimates times, it measures no energy",
                "use --objective time, or --device gpu on a machine with an NVIDIA GPU");
  }
  assay::BenchOptions options;
  TRY_ASSIGN(options.ceilings, CeilingsOf(session.engine()));
  return evolve::MakeMeasured(session.parts(), std::move(options), *aim,
                              [progress = std::move(progress)](const std::string& stage) {
                                progress({stage, 0, 0});
                              });
}

/// The loop with language models.
Result<evolve::RunResult> EvolveRun(const OptimizeCommand& command, OpenRun& run,
                                    evolve::Evaluator& evaluator, std::string_view objective,
                                    const Recording* recording) {
  TRY_ASSIGN(evolve::EvolutionOptions options, EvolutionOptionsOf(command));
  options.seed = run.info.seed;
  options.operation = run.stored.operation;
  options.objective_text = [objective](double value) {
    return report::ObjectiveText(objective, value);
  };
  std::vector<llm::ModelSpec> specs;
  for (const auto* list : {&command.search.models.specs, &command.search.reviewers}) {
    for (const std::string& text : *list) {
      TRY_ASSIGN(llm::ModelSpec spec, llm::ParseModelSpec(text));
      specs.push_back(std::move(spec));
    }
  }
  evolve::ConversationOptions conversing;
  conversing.limits = LimitsOf(command.search.models);
  conversing.seed = run.info.seed;
  if (recording != nullptr) {
    conversing.limits = {};
    conversing.replay = &recording->exchanges;
    options.recorded_reading = recording->reading;
  }
  TRY_ASSIGN(const auto conversations, evolve::Conversations::Open(run.archive, specs, conversing));
  const auto askers = conversations->askers();
  const auto first_reviewer =
      askers.begin() + static_cast<std::ptrdiff_t>(command.search.models.specs.size());
  evolve::EvolutionParts parts{run.archive,
                               evaluator,
                               *conversations,
                               {askers.begin(), first_reviewer},
                               {first_reviewer, askers.end()}};
  if (parts.reviewers.empty()) parts.reviewers = {parts.proposers.front()};
  for (size_t i = 0; i < parts.proposers.size(); ++i) options.weights.push_back(specs[i].weight);
  auto result = evolve::Evolve(parts, run.stored.start, options);
  if (!result && recording != nullptr && result.error().code == ErrorCode::kNotFound) {
    evolve::RunResult ended;
    ended.start_accepted = true;
    ended.end = "the recording ends here";
    return ended;
  }
  return result;
}

Status Conclude(const OptimizeCommand& command, OpenRun& run) {
  TRY_ASSIGN(const RunSummary summary, Summarise(run.archive, run.folder));
  if (summary.best) {
    TRY(os::WriteFileAtomically(run.folder / kBestFile, summary.best_source));
  }
  TRY(os::WriteFileAtomically(run.folder / kReportFile, summary.html));
  TRY(WriteJson(command.common.json, summary.json));
  fmt::print("{}Report: {}\n", summary.text, (run.folder / kReportFile).string());
  return {};
}

/// Interrupted, or nobody to ask: the run can go on, and what there is so far is told.
Result<int> StopEarly(const OptimizeCommand& command, OpenRun& run, const Error& error) {
  TRY(run.archive.SetStatus(archive::RunStatus::kStopped));
  TRY(run.archive.AddEvent("stopped", DumpJson(Json{{"reason", error.ToString()}})));
  TRY(Conclude(command, run));
  std::string remedy = fmt::format("go on with: cupel optimize --resume {}", run.folder.string());
  if (error.code != ErrorCode::kCancelled && !error.remedy.empty()) {
    remedy = error.remedy + "; then " + remedy;
  }
  return Fail(error.code, error.code == ErrorCode::kCancelled ? "interrupted" : error.message,
              std::move(remedy));
}

assay::Question QuestionOf(const OptimizeCommand& command, const task::Task& task) {
  assay::Question question;
  question.task = &task;
  question.direction = DirectionOf(command.target);
  question.kinds = KindsOf(command.target);
  question.trials = command.target.trials;
  question.distributions.assign(task::OtherInputs().begin(), task::OtherInputs().end());
  return question;
}

void Announce(const OptimizeCommand& command, const OpenRun& run, const task::Task& task,
              engine::Engine& engine) {
  if (command.common.quiet) return;
  const bool measured = engine.Name() == "gpu";
  fmt::print("run {}   ({}; {})\n", run.folder.string(), task.name,
             measured
                 ? fmt::format("{} measured on {}", command.objective, engine.Device().full_name)
                 : fmt::format("all times are the emulator's estimates for {}, not measurements",
                               command.common.model));
  std::fflush(stdout);
}

/// A new run, or one that repeats a recording.
Result<OpenRun> Begin(const OptimizeCommand& command, const task::Task& task, Session& session,
                      std::optional<StoredRun> recorded) {
  StoredRun stored;
  if (recorded) {
    stored = *std::move(recorded);
  } else {
    TRY_ASSIGN(stored.start, StartingKernel(command, task));
    if (!command.search.models.specs.empty()) {
      TRY_ASSIGN(const evolve::Operation operation,
                 evolve::Describe(task, DirectionOf(command.target), session.oracle(),
                                  session.engine().Device()));
      stored.operation = Text(operation);
    }
  }
  const uint64_t seed = command.common.seed ? *command.common.seed : EntropySeed();
  return StartRun(command, task, std::move(stored), seed);
}

Status CheckTask(const OpenRun& run, const task::Task& task, task::Direction direction) {
  if (run.info.task_hash == task.content_hash[static_cast<int>(direction)]) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("task {} has changed since the run in {} was started", task.name,
                          run.folder.string()),
              "start a new run, or restore the task's files");
}

}  // namespace

Result<int> Run(const OptimizeCommand& given) {
  OptimizeCommand command = given;
  std::optional<OpenRun> run;
  std::optional<StoredRun> recorded;
  std::optional<Recording> recording;
  if (!command.resume.empty()) {
    TRY_ASSIGN(run, ResumeRun(command));
  } else if (!command.replay.empty()) {
    TRY_ASSIGN(auto read, ReadRecording(command));
    recorded = std::move(read.first);
    recording = std::move(read.second);
  }
  TRY_ASSIGN(const task::Task task, LoadTarget(command.target, command.common));
  if (run) TRY(CheckTask(*run, task, DirectionOf(command.target)));
  ProgressView view(command.common.quiet);
  const auto show = [&](const assay::Progress& p) { view.Show(p); };
  TRY_ASSIGN(auto session, Session::Create(command.common, command.compile, show, true));
  TRY_ASSIGN(const auto objective, MakeObjective(command, *session, show));
  if (!run) {
    TRY_ASSIGN(run, Begin(command, task, *session, std::move(recorded)));
  }
  TRY(MakeFolder(run->folder / "candidates"));
  Announce(command, *run, task, session->engine());

  const bool evolves = !command.search.models.specs.empty();
  evolve::EvaluatorOptions options;
  options.device = session->engine().Device();
  options.seed = run->info.seed;
  // With models a run can be replayed: all its cases come from its own seed, which nobody knows.
  options.user_seed = run->user_seed || evolves;
  options.source_folder = run->folder / "candidates";
  evolve::Evaluator evaluator({run->archive, session->assay(), *objective},
                              QuestionOf(command, task), options,
                              [&](const evolve::RunProgress& p) { view.Show(p); });
  if (!evolves) evaluator.shown().budget = command.candidates + 1;
  const auto result = evolves ? EvolveRun(command, *run, evaluator, objective->Kind(),
                                          recording ? &*recording : nullptr)
                              : evolve::Tune(run->archive, evaluator, run->stored.start,
                                             {command.candidates, command.batch, run->info.seed});
  view.End();
  if (!result) return StopEarly(command, *run, result.error());
  TRY(run->archive.SetStatus(archive::RunStatus::kFinished));
  TRY(Conclude(command, *run));
  if (!result->end.empty() && !command.common.quiet) {
    fmt::print("The run ended: {}.\n", result->end);
  }
  return result->start_accepted ? 0 : 1;
}

}  // namespace cupel::cli
