// SPDX-License-Identifier: Apache-2.0
#include "cli/task_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "app/session.h"
#include "app/tasks/task_files.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "os/fd.h"
#include "report/progress.h"
#include "task/reduced.h"

namespace cupel::cli {
namespace {

constexpr uint64_t kSeedCount = 5;
constexpr size_t kMaxCode = 1u << 20;

/// The model that judges a task's code. Configuring one is not supported yet.
oracle::AskModel ConfiguredModel() { return {}; }

/// Filters one task after the other and shows the progress.
class FilterRun {
 public:
  static Result<std::unique_ptr<FilterRun>> Create(const FilterCommand& command) {
    TRY_ASSIGN(const auto data, os::DataDir());
    TRY_ASSIGN(const auto cache, os::CacheDir());
    return std::unique_ptr<FilterRun>(new FilterRun(command, data, cache));
  }
  FilterRun(const FilterRun&) = delete;
  FilterRun& operator=(const FilterRun&) = delete;

  /// Adds the task to the report, also if it is broken. An Error means that cupel failed.
  Status Add(const app::TaskFile& file) {
    FilteredTask& filtered = report_.tasks.emplace_back();
    filtered.name = file.name;
    filtered.path = file.path.string();
    auto task = task::LoadTask(file.path.string(), root_);
    if (!task) {
      filtered.message = task.error().ToString();
    } else {
      TRY(Examine(command_.full_size ? *task : task::Reduced(std::move(*task)), filtered));
    }
    ++state_.done;
    return {};
  }

  void Expect(size_t tasks) { state_.total = static_cast<int64_t>(tasks); }
  void EndProgress() { line_.Finish(); }
  FilterReport& report() { return report_; }

 private:
  FilterRun(const FilterCommand& command, const std::filesystem::path& data,
            const std::filesystem::path& cache)
      : command_(command), root_(data / "tasks"), line_(command.show.quiet), filter_([&] {
          oracle::FilterOptions options;
          options.script = data / "src" / "oracle" / "filter.py";
          options.python = command.common.python;
          options.cache = cache / "cases";
          options.deadline = std::chrono::seconds(command.seconds);
          options.progress = [this](const std::string& stage) { Show(stage); };
          return options;
        }()) {
    const uint64_t first = command.common.seed.value_or(0);
    for (uint64_t i = 0; i < kSeedCount; ++i) report_.seeds.push_back(first + i);
    report_.seconds = command.seconds;
    state_.unit = "tasks";
  }

  void Show(const std::string& stage) {
    state_.activity = report_.tasks.empty() ? stage : report_.tasks.back().name + ": " + stage;
    line_.Update(state_);
  }

  Status Examine(const task::Task& task, FilteredTask& filtered) {
    app::Target target;
    target.settings = command_.settings;
    const auto kinds = KindsOf(target);
    for (const auto direction : task::kDirections) {
      if (!task.Has(direction)) continue;
      if (command_.backward && direction == task::Direction::kForward) continue;
      for (const task::Setting& setting : task.SettingsOf(direction)) {
        const bool wanted = std::find(kinds.begin(), kinds.end(), setting.kind) != kinds.end();
        if (!kinds.empty() && !wanted) continue;
        TRY_ASSIGN(FilteredSetting result, ExamineSetting(task, direction, setting));
        filtered.settings.push_back(std::move(result));
      }
    }
    return {};
  }

  Result<FilteredSetting> ExamineSetting(const task::Task& task, task::Direction direction,
                                         const task::Setting& setting) {
    FilteredSetting result{direction, setting, FilterVerdict::kClean, "", {}, {}};
    TRY_ASSIGN(auto outcome, filter_.Measure(task, direction, setting, report_.seeds));
    if (const auto* failure = std::get_if<oracle::SettingFailure>(&outcome)) {
      result.checks.push_back(oracle::ReferenceFails(failure->message));
    } else if (const auto* much = std::get_if<oracle::TooMuch>(&outcome)) {
      result.message = much->message;
    } else {
      result.measures = std::get<oracle::TaskMeasures>(std::move(outcome));
      TRY_ASSIGN(const auto opinion, Ask(task, direction));
      result.checks = oracle::JudgeQuality(*result.measures, opinion);
    }
    if (!result.message.empty()) result.verdict = FilterVerdict::kNotExamined;
    if (oracle::IsFlagged(result.checks)) result.verdict = FilterVerdict::kFlagged;
    return result;
  }

  /// Asks the model about a task. Returns nullopt if no model is configured.
  Result<std::optional<oracle::ModelOpinion>> Ask(const task::Task& task,
                                                  task::Direction direction) {
    if (!ask_) return std::optional<oracle::ModelOpinion>();
    TRY_ASSIGN(const std::string code,
               os::ReadFile(task.code[static_cast<int>(direction)], kMaxCode));
    TRY_ASSIGN(oracle::ModelOpinion opinion, ask_(code));
    return std::optional<oracle::ModelOpinion>(std::move(opinion));
  }

  const FilterCommand& command_;
  std::filesystem::path root_;
  report::Progress line_;
  report::ProgressState state_;
  FilterReport report_;
  oracle::AskModel ask_ = ConfiguredModel();
  oracle::Filter filter_;
};

Result<std::vector<app::TaskFile>> FilesOf(const FilterCommand& command) {
  if (!command.all.empty()) return app::FindTaskFiles(command.all);
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const task::Task task, task::LoadTask(command.task, data / "tasks"));
  if (command.backward && !task.Has(task::Direction::kBackward)) {
    return Fail(ErrorCode::kNotFound, fmt::format("task {} has no backward direction", task.name),
                fmt::format("this needs func_backward.py and config_backward.json in {}",
                            task.path.string()));
  }
  return std::vector<app::TaskFile>{{task.name, task.path}};
}

int StatusOf(const FilterReport& report) {
  const auto any = [&report](FilterVerdict verdict) {
    return std::any_of(report.tasks.begin(), report.tasks.end(),
                       [verdict](const FilteredTask& task) { return task.verdict() == verdict; });
  };
  if (any(FilterVerdict::kFlagged)) return 1;
  return any(FilterVerdict::kNotExamined) ? 2 : 0;
}

}  // namespace

Result<int> Run(const FilterCommand& command) {
  TRY_ASSIGN(const std::vector<app::TaskFile> files, FilesOf(command));
  TRY_ASSIGN(const std::unique_ptr<FilterRun> run, FilterRun::Create(command));
  run->Expect(files.size());
  FilterReport& report = run->report();
  Status status;
  for (const app::TaskFile& file : files) {
    status = run->Add(file);
    if (status) continue;
    report.interrupted = true;  // still report the results so far
    report.tasks.pop_back();
    break;
  }
  run->EndProgress();
  if (command.all.empty()) {
    for (const FilteredTask& task : report.tasks) fmt::print("{}", FilterText(task));
  } else if (!report.tasks.empty()) {
    fmt::print("{}", FilterSummary(report));
  }
  TRY(WriteJson(command.show.json, FilterJson(report)));
  if (!status) return tl::unexpected<Error>(status.error());
  return StatusOf(report);
}

}  // namespace cupel::cli
