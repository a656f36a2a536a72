// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>

#include "app/session.h"
#include "app/tasks/task_import.h"
#include "base/hash.h"
#include "base/lanes.h"
#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kMaxReport = 64u << 20;

Json ToJson(const StageResult& stage) {
  return Json{{"verdict", stage.verdict}, {"message", stage.message}};
}

Json ToJson(const ImportedProblem& p) {
  return Json{{"problem", p.name},
              {"path", p.path},
              {"sha256", p.sha256},
              {"imported", p.refusal.empty()},
              {"refusal", p.refusal},
              {"folder", p.folder},
              {"sizes", p.sizes},
              {"reduced", p.reduced},
              {"arguments", p.arguments},
              {"functional", p.functional},
              {"compared", p.compared},
              {"notes", p.notes},
              {"at", p.at},
              {"oracle", ToJson(p.oracle)},
              {"filter", ToJson(p.filter)},
              {"seconds", p.seconds}};
}

Result<std::vector<std::string>> TextsOf(const Json& json, const char* key, const std::string& w) {
  TRY_ASSIGN(const Json* list, JsonArray(json, key, w));
  std::vector<std::string> texts;
  for (const Json& text : *list) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

Result<StageResult> StageOf(const Json& json, const char* key, const std::string& what) {
  TRY_ASSIGN(const Json* stage, JsonObject(json, key, what));
  StageResult result;
  TRY_ASSIGN(result.verdict, JsonString(*stage, "verdict", what));
  TRY_ASSIGN(result.message, JsonString(*stage, "message", what));
  return result;
}

Result<ImportedProblem> ReadProblem(const Json& json, const std::string& what) {
  ImportedProblem p;
  TRY_ASSIGN(p.name, JsonString(json, "problem", what));
  TRY_ASSIGN(p.path, JsonString(json, "path", what));
  TRY_ASSIGN(p.sha256, JsonString(json, "sha256", what));
  TRY_ASSIGN(p.refusal, JsonString(json, "refusal", what));
  TRY_ASSIGN(p.folder, JsonString(json, "folder", what));
  TRY_ASSIGN(const Json* sizes, JsonObject(json, "sizes", what));
  TRY_ASSIGN(const Json* reduced, JsonObject(json, "reduced", what));
  p.sizes = *sizes;
  p.reduced = *reduced;
  TRY_ASSIGN(p.arguments, TextsOf(json, "arguments", what));
  TRY_ASSIGN(p.notes, TextsOf(json, "notes", what));
  TRY_ASSIGN(p.functional, JsonBool(json, "functional", what));
  TRY_ASSIGN(p.compared, JsonString(json, "compared", what));
  TRY_ASSIGN(p.at, JsonString(json, "at", what));
  TRY_ASSIGN(p.oracle, StageOf(json, "oracle", what));
  TRY_ASSIGN(p.filter, StageOf(json, "filter", what));
  TRY_ASSIGN(p.seconds, JsonNumber(json, "seconds", what));
  return p;
}

/// Each lane runs one problem after the other. The report is written after each problem.
class ReportRun {
 public:
  ReportRun(const ImportOptions& options, const std::vector<TaskFile>& files, Events& events)
      : options_(options), files_(files), events_(events) {
    report_.seconds = options.seconds;
    report_.memory = static_cast<int64_t>(options.memory);
  }

  Result<ImportReport> Run() {
    TRY(TakeEarlier());
    lanes_.resize(options_.jobs > 0 ? static_cast<size_t>(options_.jobs) : Cores());
    const Status status =
        ForEachOnLanes(lanes_.size(), todo_.size(),
                       [&](size_t lane, size_t item) { return RunItem(lanes_[lane], item); });
    lanes_.clear();
    report_.interrupted = !status.has_value();
    report_.status = status;
    TRY(Write());
    return std::move(report_);
  }

 private:
  struct Lane {
    std::unique_ptr<oracle::Importer> importer;
    std::unique_ptr<ImportStages> stages;
  };

  /// Takes unchanged problems from an earlier report, so that they do not run again.
  Status TakeEarlier() {
    TRY_ASSIGN(const auto earlier, EarlierImports(options_.report, report_));
    std::map<std::string, const ImportedProblem*> known;
    for (const ImportedProblem& p : earlier) known[p.path + "\n" + p.sha256] = &p;
    for (const TaskFile& file : files_) {
      const ImportedProblem problem = ProblemOf(file);
      const auto found = known.find(problem.path + "\n" + problem.sha256);
      results_.push_back(found == known.end() ? problem : *found->second);
      done_.push_back(found != known.end());
      if (found == known.end()) todo_.push_back(results_.size() - 1);
    }
    return {};
  }

  Status RunItem(Lane& lane, size_t item) {
    if (options_.common.stop.stop_requested()) return Fail(ErrorCode::kCancelled, "cancelled");
    if (!lane.importer) {
      TRY_ASSIGN(const auto options,
                 ImporterOptions(options_.common, options_.seconds, options_.memory));
      lane.importer = std::make_unique<oracle::Importer>(options);
      TRY_ASSIGN(lane.stages, ImportStages::Create(options_));
    }
    const size_t index = todo_[item];
    const auto start = Clock::now();
    ImportedProblem problem = results_[index];
    TRY(Examine(lane, files_[index], problem));
    problem.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const std::lock_guard lock(mutex_);
    results_[index] = std::move(problem);
    done_[index] = true;
    ShowProgress(files_[index].name);
    return Write();
  }

  Status Examine(Lane& lane, const TaskFile& file, ImportedProblem& problem) {
    const bool kept = !options_.output.empty();
    if (!problem.refusal.empty()) return {};
    if (kept && FolderExists(options_, options_.output / file.name, problem)) {
      problem.sha256.clear();  // not examined now; the next run must examine it
      return {};
    }
    TRY_ASSIGN(const auto outcome, lane.importer->Import(RequestOf(options_, file)));
    if (const auto* refusal = std::get_if<oracle::ImportRefusal>(&outcome)) {
      problem.refusal = refusal->message;
      return {};
    }
    const auto& imported = std::get<oracle::Imported>(outcome);
    Take(imported, problem);
    TRY_ASSIGN(const os::TempDir temporary, os::TempDir::Create());
    const fs::path folder = (kept ? options_.output : temporary.path()) / file.name;
    if (kept) problem.folder = folder.string();
    TRY(WriteImported(file.path, imported, folder, options_.force));
    return lane.stages->Run(folder, imported, problem);
  }

  void ShowProgress(const std::string& name) {
    Progress state;
    state.stage = name;
    state.done = std::count(done_.begin(), done_.end(), true);
    state.total = static_cast<int64_t>(done_.size());
    state.unit = "problems";
    events_.Show(state);
  }

  Status Write() {
    report_.problems.clear();
    for (size_t i = 0; i < results_.size(); ++i) {
      if (done_[i]) report_.problems.push_back(results_[i]);
    }
    ImportReport written = report_;
    written.interrupted = report_.problems.size() < results_.size();
    return os::WriteFileAtomically(options_.report, DumpJson(app::ToJson(written), 1) + "\n");
  }

  const ImportOptions& options_;
  const std::vector<TaskFile>& files_;
  Events& events_;
  std::mutex mutex_;
  std::vector<Lane> lanes_;
  std::vector<ImportedProblem> results_;  // one for each file
  std::vector<bool> done_;
  std::vector<size_t> todo_;
  ImportReport report_;
};

}  // namespace

ImportCounts CountsOf(const ImportReport& report) {
  ImportCounts c;
  for (const ImportedProblem& p : report.problems) {
    ++c.problems;
    c.imported += p.refusal.empty();
    c.ran += p.oracle.verdict == "ran";
    c.reduced += p.oracle.verdict == "ran" && !p.at.empty();
    c.clean += p.filter.verdict == "clean";
    c.flagged += p.filter.verdict == "flagged";
  }
  return c;
}

Json ToJson(const ImportReport& report) {
  const ImportCounts c = CountsOf(report);
  Json json{{"schema", "cupel.import/1"},
            {"seconds", report.seconds},
            {"memory", report.memory},
            {"interrupted", report.interrupted},
            {"counts",
             {{"problems", c.problems},
              {"imported", c.imported},
              {"ran", c.ran},
              {"ran_reduced", c.reduced},
              {"clean", c.clean},
              {"flagged", c.flagged}}},
            {"problems", Json::array()}};
  for (const ImportedProblem& p : report.problems) json["problems"].push_back(ToJson(p));
  return json;
}

Result<std::vector<ImportedProblem>> EarlierImports(const fs::path& file,
                                                    const ImportReport& report) {
  std::vector<ImportedProblem> earlier;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return earlier;
  TRY_ASSIGN(const std::string text, os::ReadFile(file, kMaxReport));
  TRY_ASSIGN(const Json json, ParseJson(text, file.string()));
  const std::string what = file.string();
  const auto schema = JsonString(json, "schema", what);
  if (!schema || *schema != "cupel.import/1") {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not a report of cupel task import", what),
                "choose another file for --report");
  }
  TRY_ASSIGN(const int64_t seconds, JsonInt(json, "seconds", what));
  TRY_ASSIGN(const int64_t memory, JsonInt(json, "memory", what));
  if (seconds != report.seconds || memory != report.memory) return earlier;
  TRY_ASSIGN(const Json* problems, JsonArray(json, "problems", what));
  for (const Json& problem : *problems) {
    TRY_ASSIGN(ImportedProblem read, ReadProblem(problem, what));
    earlier.push_back(std::move(read));
  }
  return earlier;
}

Result<ImportReport> ImportAndRun(const ImportOptions& options, const std::vector<TaskFile>& files,
                                  Events& events) {
  return ReportRun(options, files, events).Run();
}

}  // namespace cupel::app
