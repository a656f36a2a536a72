// SPDX-License-Identifier: Apache-2.0
#include "app/search/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "app/ceilings.h"
#include "app/search/run_summary.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/version.h"
#include "build/lint.h"
#include "os/files.h"
#include "report/objective_kind.h"

namespace cupel::app {
namespace {

/// Like "mnist_linear_relu-20260201-101500". Usually unique; if the run exists already, creating it
/// is an error.
std::string NewRunName(const task::Task& task) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
  return fmt::format("{}-{}", task.name, stamp);
}

}  // namespace

Result<std::vector<std::string>> Strings(const Json& json, const char* key) {
  TRY_ASSIGN(const Json* array, JsonArray(json, key, kRunConfig));
  std::vector<std::string> strings;
  for (const Json& item : *array) {
    if (!item.is_string()) {
      return Fail(ErrorCode::kIo, fmt::format("{}: {} must contain only strings", kRunConfig, key));
    }
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

Status ReadInt(const Json& json, const char* key, int& into) {
  TRY_ASSIGN(const int64_t value, JsonInt(json, key, kRunConfig));
  into = static_cast<int>(value);
  return {};
}

Json RunJson(const Common& common, const Compile& compile, const Target& target) {
  Json roots = Json::array();
  for (const auto& root : compile.include_roots) roots.push_back(root.string());
  return Json{{"task", target.task},
              {"backward", target.backward},
              {"settings", target.settings},
              {"trials", target.trials},
              {"full_size", target.full_size},
              {"device", common.device},
              {"model", common.model},
              {"user_seed", common.seed.has_value()},
              {"operators", target.operators},
              {"arch", compile.arch},
              {"flags", Json(compile.flags)},
              {"include_roots", roots},
              {"compile_seconds", compile.seconds}};
}

Status ReadRun(const Json& json, Common& common, Compile& compile, Target& target) {
  TRY_ASSIGN(target.task, JsonString(json, "task", kRunConfig));
  TRY_ASSIGN(target.backward, JsonBool(json, "backward", kRunConfig));
  TRY_ASSIGN(target.settings, JsonString(json, "settings", kRunConfig));
  TRY(ReadInt(json, "trials", target.trials));
  TRY_ASSIGN(common.device, JsonString(json, "device", kRunConfig));
  TRY_ASSIGN(common.model, JsonString(json, "model", kRunConfig));
  TRY_ASSIGN(compile.arch, JsonString(json, "arch", kRunConfig));
  TRY_ASSIGN(compile.flags, Strings(json, "flags"));
  TRY_ASSIGN(const auto roots, Strings(json, "include_roots"));
  compile.include_roots.assign(roots.begin(), roots.end());
  if (json.contains("operators")) {  // older runs allow none
    TRY_ASSIGN(target.operators, JsonString(json, "operators", kRunConfig));
  }
  if (json.contains("compile_seconds")) {
    TRY(ReadInt(json, "compile_seconds", compile.seconds));
  }
  if (json.contains("full_size")) {  // runs of cupel 0.1.0 lack it
    TRY_ASSIGN(target.full_size, JsonBool(json, "full_size", kRunConfig));
  }
  return {};
}

Json BudgetJson(const ModelOptions& models) {
  return Json{{"budget_usd", models.budget_usd ? Json(*models.budget_usd) : Json()},
              {"budget_tokens", models.budget_tokens ? Json(*models.budget_tokens) : Json()}};
}

Status ReadBudget(const Json& json, ModelOptions& models) {
  if (models.budget_usd || models.budget_tokens) return {};
  if (json.contains("budget_usd") && !json["budget_usd"].is_null()) {
    TRY_ASSIGN(models.budget_usd, JsonNumber(json, "budget_usd", kRunConfig));
  }
  if (json.contains("budget_tokens") && !json["budget_tokens"].is_null()) {
    TRY_ASSIGN(models.budget_tokens, JsonInt(json, "budget_tokens", kRunConfig));
  }
  return {};
}

Result<OpenRun> StartRun(std::filesystem::path folder, const task::Task& task,
                         task::Direction direction, const Common& common, const Json& config) {
  if (folder.empty()) folder = std::filesystem::path("cupel-runs") / NewRunName(task);
  TRY(os::MakeFolders(folder));
  archive::NewRun run;
  run.id = "run";
  run.task = task.name;
  run.direction = task::Name(direction);
  run.task_hash = task.content_hash[static_cast<int>(direction)];
  run.cupel_version = kVersion;
  run.seed = common.seed ? *common.seed : EntropySeed();
  run.config = DumpJson(config);
  TRY_ASSIGN(archive::Archive archive, archive::Archive::Create(folder / kRunFile, run));
  TRY(archive.AddEvent("started"));
  TRY_ASSIGN(archive::RunInfo info, archive.Run());
  return OpenRun{std::move(archive), std::move(info), std::move(folder), common.seed.has_value()};
}

Result<OpenRun> ResumeRun(const std::filesystem::path& folder) {
  TRY_ASSIGN(archive::Archive archive, archive::Archive::Open(folder / kRunFile));
  TRY_ASSIGN(archive::RunInfo info, archive.Run());
  TRY_ASSIGN(const Json config, ParseJson(info.config, kRunConfig));
  TRY_ASSIGN(const bool user_seed, JsonBool(config, "user_seed", kRunConfig));
  TRY(archive.AddEvent("resumed"));
  TRY(archive.SetStatus(archive::RunStatus::kRunning));
  return OpenRun{std::move(archive), std::move(info), folder, user_seed};
}

Status CheckTask(const OpenRun& run, const task::Task& task, task::Direction direction) {
  if (run.info.task_hash == task.content_hash[static_cast<int>(direction)]) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("task {} has changed since the run in {} was started", task.name,
                          run.folder.string()),
              "start a new run, or restore the task's files");
}

Result<std::filesystem::path> CandidatesFolder(const OpenRun& run) {
  std::filesystem::path folder = run.folder / "candidates";
  TRY(os::MakeFolders(folder));
  return folder;
}

Status CheckForm(evolve::Form form, const Target& target) {
  if (form == evolve::Form::kCuda || !target.backward) return {};
  return Fail(ErrorCode::kUnsupported,
              "unsupported: Python programs are recorded for the forward direction only",
              "give a .cu file for --backward");
}

assay::Question RunQuestion(const task::Task& task, const Target& target, const Common& common) {
  assay::Question question;
  question.task = &task;
  question.direction = DirectionOf(target);
  question.kinds = KindsOf(target);
  question.trials = target.trials;
  MakeThorough(question);
  // Not by default: an estimate counts an operator as a copy, so a search would let PyTorch work.
  question.operators = OperatorsOf(target);
  return ForEngines(std::move(question), target, common);
}

Result<std::unique_ptr<evolve::Objective>> MakeObjective(const std::string& aim, Session& session) {
  const auto known = evolve::AimNamed(aim);
  if (!known) {
    return Fail(ErrorCode::kInvalidArgument, "unknown objective " + aim,
                "choose time, energy or mix");
  }
  if (session.engine().Name() != "gpu") {
    if (*known == evolve::Aim::kTime) return evolve::MakeEstimate();
    return Fail(ErrorCode::kUnsupported,
                "unsupported: the emulator only estimates times, it cannot measure energy",
                "use --objective time, or --device gpu on a machine with an NVIDIA GPU");
  }
  assay::BenchOptions options;
  TRY_ASSIGN(options.ceilings, CeilingsOf(session.engine()));
  return evolve::MakeMeasured(session.parts(), std::move(options), *known);
}

std::function<std::string(double)> ObjectiveTextOf(const evolve::Objective& objective) {
  return [kind = std::string(objective.Kind())](double value) {
    return report::ObjectiveText(kind, value);
  };
}

std::string LinterRemarks(const std::filesystem::path& kernel, const build::Options& options) {
  constexpr size_t kMost = 8;
  const auto lint = build::RunClangTidy(kernel, options);
  if (!lint) return "";  // the remarks are optional, so the run continues
  std::string text;
  for (size_t i = 0; i < std::min(kMost, lint->remarks.size()); ++i) {
    const build::Diagnostic& remark = lint->remarks[i];
    text += fmt::format("  line {}: {}\n", remark.line, Fit(Printable(remark.message), 160));
  }
  return text;
}

Result<Error> StopEarly(OpenRun& run, const Error& error, const char* command) {
  TRY(run.archive.SetStatus(archive::RunStatus::kStopped));
  TRY(run.archive.AddEvent("stopped", DumpJson(Json{{"reason", error.ToString()}})));
  std::string remedy =
      fmt::format("to continue: cupel {} --resume {}", command, run.folder.string());
  const bool cancelled = error.code == ErrorCode::kCancelled;
  if (!cancelled && !error.remedy.empty()) remedy = error.remedy + "; then " + remedy;
  return Error{error.code, cancelled ? "interrupted" : error.message, std::move(remedy)};
}

}  // namespace cupel::app
