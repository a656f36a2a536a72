// SPDX-License-Identifier: Apache-2.0
#include "app/tasks/task_filter.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/session.h"
#include "app/tasks/task_files.h"
#include "os/files.h"
#include "os/folders.h"
#include "task/reduced.h"

namespace cupel::app {
namespace {

constexpr uint64_t kSeedCount = 5;
constexpr size_t kMaxCode = 1u << 20;

/// The model that judges a task's code. Configuring one is not supported yet.
oracle::AskModel ConfiguredModel() { return {}; }

/// Filters one task after the other.
class FilterRun {
 public:
  static Result<std::unique_ptr<FilterRun>> Create(const FilterOptions& options, Events& events) {
    TRY_ASSIGN(const auto data, os::DataDir());
    TRY_ASSIGN(const auto cache, os::CacheDir());
    return std::unique_ptr<FilterRun>(new FilterRun(options, events, data, cache));
  }
  FilterRun(const FilterRun&) = delete;
  FilterRun& operator=(const FilterRun&) = delete;

  /// Adds the task to the report, also if it is broken. An Error means that cupel failed.
  Status Add(const TaskFile& file) {
    FilteredTask& filtered = report_.tasks.emplace_back();
    filtered.name = file.name;
    filtered.path = file.path.string();
    auto task = task::LoadTask(file.path.string(), root_);
    if (!task) {
      filtered.message = task.error().ToString();
    } else {
      TRY(Examine(options_.full_size ? *task : task::Reduced(std::move(*task)), filtered));
    }
    ++state_.done;
    return {};
  }

  void Expect(size_t tasks) { state_.total = static_cast<int64_t>(tasks); }
  FilterReport& report() { return report_; }

 private:
  FilterRun(const FilterOptions& options, Events& events, const std::filesystem::path& data,
            const std::filesystem::path& cache)
      : options_(options), events_(events), root_(data / "tasks"), filter_([&] {
          oracle::FilterOptions filtering;
          filtering.script = data / "src" / "oracle" / "py" / "filter.py";
          filtering.python = options.common.python;
          filtering.cache = cache / "cases";
          filtering.deadline = std::chrono::seconds(options.seconds);
          filtering.stop = options.common.stop;
          filtering.progress = [this](const std::string& stage) { Show(stage); };
          return filtering;
        }()) {
    const uint64_t first = options.common.seed.value_or(0);
    for (uint64_t i = 0; i < kSeedCount; ++i) report_.seeds.push_back(first + i);
    report_.seconds = options.seconds;
    state_.unit = "tasks";
  }

  void Show(const std::string& stage) {
    state_.stage = report_.tasks.empty() ? stage : report_.tasks.back().name + ": " + stage;
    events_.Show(state_);
  }

  Status Examine(const task::Task& task, FilteredTask& filtered) {
    Target target;
    target.settings = options_.settings;
    const auto kinds = KindsOf(target);
    for (const auto direction : task::kDirections) {
      if (!task.Has(direction)) continue;
      if (options_.backward && direction == task::Direction::kForward) continue;
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

  const FilterOptions& options_;
  Events& events_;
  std::filesystem::path root_;
  Progress state_;
  FilterReport report_;
  oracle::AskModel ask_ = ConfiguredModel();
  oracle::Filter filter_;
};

Result<std::vector<TaskFile>> FilesOf(const FilterOptions& options) {
  if (!options.all.empty()) return FindTaskFiles(options.all);
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const task::Task task, task::LoadTask(options.task, data / "tasks"));
  if (options.backward && !task.Has(task::Direction::kBackward)) {
    return Fail(ErrorCode::kNotFound, fmt::format("task {} has no backward direction", task.name),
                fmt::format("this needs func_backward.py and config_backward.json in {}",
                            task.path.string()));
  }
  return std::vector<TaskFile>{{task.name, task.path}};
}

}  // namespace

Result<FilterReport> FilterTasks(const FilterOptions& options, Events& events) {
  TRY_ASSIGN(const std::vector<TaskFile> files, FilesOf(options));
  TRY_ASSIGN(const std::unique_ptr<FilterRun> run, FilterRun::Create(options, events));
  run->Expect(files.size());
  FilterReport& report = run->report();
  for (const TaskFile& file : files) {
    report.status = run->Add(file);
    if (report.status) continue;
    report.interrupted = true;
    report.tasks.pop_back();
    break;
  }
  return std::move(report);
}

}  // namespace cupel::app
