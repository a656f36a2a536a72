// `cupel optimize`: evolves a kernel, in a run that can be killed and resumed.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <utility>

#include "archive/archive.h"
#include "base/hash.h"
#include "base/version.h"
#include "cli/ceilings.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/run_summary.h"
#include "cli/session.h"
#include "evolve/objective.h"
#include "evolve/evaluator.h"
#include "evolve/tuning.h"
#include "os/fd.h"
#include "os/process.h"

namespace cupel::cli {
namespace {

constexpr size_t kMaxSourceBytes = 4u << 20;

Json ToJson(const OptimizeCommand& command, const std::string& start) {
  Json flags = command.compile.flags;
  Json roots = Json::array();
  for (const auto& root : command.compile.include_roots) roots.push_back(root.string());
  return Json{{"task", command.target.task},
              {"backward", command.target.backward},
              {"settings", command.target.settings},
              {"trials", command.target.trials},
              {"full_size", command.target.full_size},
              {"candidates", command.candidates},
              {"batch", command.batch},
              {"objective", command.objective},
              {"device", command.common.device},
              {"model", command.common.model},
              {"user_seed", command.common.seed.has_value()},
              {"arch", command.compile.arch},
              {"flags", flags},
              {"include_roots", roots},
              {"start", start}};
}

/// Fills `command` with what the run was started with; returns the starting kernel's source.
Result<std::string> FromJson(const Json& json, OptimizeCommand& command) {
  constexpr const char* kWhat = "configuration of the run";
  TRY_ASSIGN(command.target.task, JsonString(json, "task", kWhat));
  TRY_ASSIGN(command.target.backward, JsonBool(json, "backward", kWhat));
  TRY_ASSIGN(command.target.settings, JsonString(json, "settings", kWhat));
  TRY_ASSIGN(const int64_t trials, JsonInt(json, "trials", kWhat));
  TRY_ASSIGN(const int64_t candidates, JsonInt(json, "candidates", kWhat));
  TRY_ASSIGN(const int64_t batch, JsonInt(json, "batch", kWhat));
  TRY_ASSIGN(command.common.device, JsonString(json, "device", kWhat));
  if (json.contains("objective")) {  // runs of cupel 0.1.0 lack it
    TRY_ASSIGN(command.objective, JsonString(json, "objective", kWhat));
  }
  TRY_ASSIGN(command.common.model, JsonString(json, "model", kWhat));
  TRY_ASSIGN(command.compile.arch, JsonString(json, "arch", kWhat));
  TRY_ASSIGN(const Json* flags, JsonArray(json, "flags", kWhat));
  TRY_ASSIGN(const Json* roots, JsonArray(json, "include_roots", kWhat));
  command.target.trials = static_cast<int>(trials);
  if (json.contains("full_size")) {
    TRY_ASSIGN(command.target.full_size, JsonBool(json, "full_size", kWhat));
  }
  command.candidates = static_cast<int>(candidates);
  command.batch = static_cast<int>(batch);
  command.compile.flags.clear();
  for (const Json& flag : *flags) {
    if (flag.is_string()) command.compile.flags.push_back(flag.get<std::string>());
  }
  command.compile.include_roots.clear();
  for (const Json& root : *roots) {
    if (root.is_string()) command.compile.include_roots.emplace_back(root.get<std::string>());
  }
  return JsonString(json, "start", kWhat);
}

/// "mnist_linear_relu-20260201-101500": unique enough for a folder of runs; a clash is an error.
std::string NewRunName(const task::Task& task) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
  return fmt::format("{}-{}", task.name, stamp);
}

struct OpenRun {
  archive::Archive archive;
  archive::RunInfo info;
  std::filesystem::path folder;
  std::string start;
  bool user_seed = false;
};

Result<OpenRun> StartRun(const OptimizeCommand& command, const task::Task& task) {
  std::filesystem::path kernel = command.kernel;
  if (kernel.empty()) kernel = task.baseline[static_cast<int>(DirectionOf(command.target))];
  if (kernel.empty()) {
    return Fail(ErrorCode::kNotFound, fmt::format("task {} has no baseline kernel", task.name),
                "name one to start from with --kernel FILE.cu");
  }
  TRY_ASSIGN(std::string start, os::ReadFile(kernel, kMaxSourceBytes));
  std::filesystem::path folder = command.run;
  if (folder.empty()) folder = std::filesystem::path("cupel-runs") / NewRunName(task);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Fail(ErrorCode::kIo,
                fmt::format("cannot make the folder {}: {}", folder.string(), error.message()));
  }
  archive::NewRun run;
  run.id = "run";
  run.task = task.name;
  run.direction = task::Name(DirectionOf(command.target));
  run.task_hash = task.content_hash[static_cast<int>(DirectionOf(command.target))];
  run.cupel_version = kVersion;
  run.seed = command.common.seed ? *command.common.seed : EntropySeed();
  run.config = DumpJson(ToJson(command, start));
  TRY_ASSIGN(archive::Archive archive, archive::Archive::Create(folder / kRunFile, run));
  TRY_ASSIGN(archive::RunInfo info, archive.Run());
  return OpenRun{std::move(archive), std::move(info), folder, std::move(start),
                 command.common.seed.has_value()};
}

Result<OpenRun> ResumeRun(OptimizeCommand& command) {
  const std::filesystem::path folder = command.resume;
  TRY_ASSIGN(archive::Archive archive, archive::Archive::Open(folder / kRunFile));
  TRY_ASSIGN(archive::RunInfo info, archive.Run());
  TRY_ASSIGN(const Json config, ParseJson(info.config, "configuration of the run"));
  TRY_ASSIGN(std::string start, FromJson(config, command));
  TRY_ASSIGN(const bool user_seed, JsonBool(config, "user_seed", "configuration of the run"));
  TRY(archive.AddEvent("resumed"));
  return OpenRun{std::move(archive), std::move(info), folder, std::move(start), user_seed};
}

evolve::EvaluatorOptions EvaluatorOptionsOf(const OpenRun& run) {
  evolve::EvaluatorOptions options;
  options.seed = run.info.seed;
  options.user_seed = run.user_seed;
  options.source_folder = run.folder / "candidates";
  return options;
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

Result<int> Finish(const OptimizeCommand& command, OpenRun& run,
                   const evolve::RunResult& result) {
  TRY(run.archive.SetStatus(archive::RunStatus::kFinished));
  TRY_ASSIGN(const RunSummary summary, Summarise(run.archive, run.folder));
  if (summary.best) {
    TRY(os::WriteFileAtomically(run.folder / kBestFile, summary.best_source));
  }
  TRY(WriteJson(command.common.json, summary.json));
  fmt::print("{}", summary.text);
  if (!result.end.empty() && !command.common.quiet) fmt::print("The run ended: {}.\n", result.end);
  return result.start_accepted ? 0 : 1;
}

}  // namespace

Result<int> Run(const OptimizeCommand& given) {
  OptimizeCommand command = given;
  std::optional<OpenRun> run;
  if (!command.resume.empty()) {
    TRY_ASSIGN(run, ResumeRun(command));
  }
  TRY_ASSIGN(const task::Task task, LoadTarget(command.target, command.common));
  const task::Direction direction = DirectionOf(command.target);
  if (!run) {
    TRY_ASSIGN(run, StartRun(command, task));
  } else if (run->info.task_hash != task.content_hash[static_cast<int>(direction)]) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("task {} has changed since the run in {} was started", task.name,
                            run->folder.string()),
                "start a new run, or restore the task's files");
  }
  std::error_code error;
  std::filesystem::create_directories(run->folder / "candidates", error);
  if (error) {
    return Fail(
        ErrorCode::kIo,
        fmt::format("cannot make {}: {}", (run->folder / "candidates").string(), error.message()));
  }

  ProgressView view(command.common.quiet);
  const auto show = [&](const assay::Progress& p) { view.Show(p); };
  TRY_ASSIGN(auto session, Session::Create(command.common, command.compile, show, true));
  TRY_ASSIGN(const auto objective, MakeObjective(command, *session, show));
  assay::Question question;
  question.task = &task;
  question.direction = direction;
  question.kinds = KindsOf(command.target);
  question.trials = command.target.trials;
  question.distributions.assign(task::OtherInputs().begin(), task::OtherInputs().end());
  if (!command.common.quiet) {
    const bool measured = session->engine().Name() == "gpu";
    fmt::print("run {}   ({}; {})\n", run->folder.string(), task.name,
               measured ? fmt::format("{} measured on {}", command.objective,
                                      session->engine().Device().full_name)
                        : fmt::format("all times are the emulator's estimates for {}, not "
                                      "measurements",
                                      command.common.model));
    std::fflush(stdout);
  }
  evolve::Evaluator evaluator({run->archive, session->assay(), *objective}, question,
                              EvaluatorOptionsOf(*run),
                              [&](const evolve::RunProgress& p) { view.Show(p); });
  evaluator.shown().budget = command.candidates + 1;
  auto result = evolve::Tune(run->archive, evaluator, run->start,
                             {command.candidates, command.batch, run->info.seed});
  view.End();
  if (!result) {
    if (result.error().code == ErrorCode::kCancelled) {
      TRY(run->archive.SetStatus(archive::RunStatus::kStopped));
      return Fail(ErrorCode::kCancelled, "interrupted",
                  fmt::format("go on with: cupel optimize --resume {}", run->folder.string()));
    }
    return tl::unexpected(result.error());
  }
  return Finish(command, *run, *result);
}

}  // namespace cupel::cli
