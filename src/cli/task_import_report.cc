// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "app/lanes.h"
#include "base/hash.h"
#include "cli/json_file.h"
#include "cli/task_import.h"
#include "os/fd.h"
#include "os/process.h"
#include "report/progress.h"
#include "report/table.h"
#include "report/text.h"

namespace cupel::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kMaxReport = 64u << 20;
constexpr size_t kMaxReason = 110;

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

/// Shortens `text` to fit into the table. The report has the whole text.
std::string Shortened(const std::string& text) {
  if (text.size() <= kMaxReason) return text;
  size_t end = kMaxReason;  // moved to a character boundary of UTF-8
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + " …";
}

/// The number of problems that reached each stage.
struct Counts {
  size_t problems = 0, imported = 0, ran = 0, reduced = 0, clean = 0, flagged = 0;
};

Counts CountsOf(const ImportReport& report) {
  Counts c;
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

/// Each lane runs one problem after the other. The report is written after each problem.
class ReportRun {
 public:
  ReportRun(const ImportCommand& command, const std::vector<app::TaskFile>& files)
      : command_(command), files_(files), progress_(command.show.quiet) {
    report_.seconds = command.seconds;
    report_.memory = static_cast<int64_t>(command.memory);
  }

  Result<int> Run() {
    TRY(TakeEarlier());
    const size_t cores = std::max(1u, std::thread::hardware_concurrency());
    const size_t jobs = command_.jobs > 0 ? static_cast<size_t>(command_.jobs) : cores;
    const size_t lanes = std::max<size_t>(1, std::min(jobs, todo_.size()));
    lanes_.resize(lanes);
    const Status status = app::ForEachOnLanes(
        lanes, todo_.size(), [&](size_t lane, size_t item) { return RunItem(lanes_[lane], item); });
    lanes_.clear();
    progress_.Finish();
    report_.interrupted = !status.has_value();
    TRY(Write());
    fmt::print("{}", ImportSummary(report_));
    TRY(WriteJson(command_.show.json, ImportJson(report_)));
    if (!status) return tl::unexpected<Error>(status.error());
    return 0;
  }

 private:
  struct Lane {
    std::unique_ptr<oracle::Importer> importer;
    std::unique_ptr<ImportStages> stages;
  };

  /// Takes unchanged problems from an earlier report, so that they do not run again.
  Status TakeEarlier() {
    TRY_ASSIGN(const auto earlier, EarlierImports(command_.report, report_));
    std::map<std::string, const ImportedProblem*> known;
    for (const ImportedProblem& p : earlier) known[p.path + "\n" + p.sha256] = &p;
    for (const app::TaskFile& file : files_) {
      const ImportedProblem problem = ProblemOf(file);
      const auto found = known.find(problem.path + "\n" + problem.sha256);
      results_.push_back(found == known.end() ? problem : *found->second);
      done_.push_back(found != known.end());
      if (found == known.end()) todo_.push_back(results_.size() - 1);
    }
    return {};
  }

  Status RunItem(Lane& lane, size_t item) {
    if (os::CancelRequested()) return Fail(ErrorCode::kCancelled, "cancelled");
    if (!lane.importer) {
      TRY_ASSIGN(const auto options,
                 app::ImporterOptions(command_.common, command_.seconds, command_.memory));
      lane.importer = std::make_unique<oracle::Importer>(options);
      TRY_ASSIGN(lane.stages, ImportStages::Create(command_));
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

  Status Examine(Lane& lane, const app::TaskFile& file, ImportedProblem& problem) {
    const bool kept = !command_.output.empty();
    if (!problem.refusal.empty()) return {};
    if (kept && FolderExists(command_, command_.output / file.name, problem)) {
      problem.sha256.clear();  // not examined now; the next run must examine it
      return {};
    }
    TRY_ASSIGN(const auto outcome, lane.importer->Import(RequestOf(command_, file)));
    if (const auto* refusal = std::get_if<oracle::ImportRefusal>(&outcome)) {
      problem.refusal = refusal->message;
      return {};
    }
    const auto& imported = std::get<oracle::Imported>(outcome);
    Take(imported, problem);
    TRY_ASSIGN(const os::TempDir temporary, os::TempDir::Create());
    const fs::path folder = (kept ? command_.output : temporary.path()) / file.name;
    if (kept) problem.folder = folder.string();
    TRY(WriteImported(file.path, imported, folder, command_.force));
    return lane.stages->Run(folder, imported, problem);
  }

  void ShowProgress(const std::string& name) {
    report::ProgressState state;
    state.activity = name;
    state.done = std::count(done_.begin(), done_.end(), true);
    state.total = static_cast<int64_t>(done_.size());
    state.unit = "problems";
    progress_.Update(state);
  }

  Status Write() {
    report_.problems.clear();
    for (size_t i = 0; i < results_.size(); ++i) {
      if (done_[i]) report_.problems.push_back(results_[i]);
    }
    ImportReport written = report_;
    written.interrupted = report_.problems.size() < results_.size();
    return os::WriteFileAtomically(command_.report, DumpJson(ImportJson(written), 1) + "\n");
  }

  const ImportCommand& command_;
  const std::vector<app::TaskFile>& files_;
  report::Progress progress_;
  std::mutex mutex_;
  std::vector<Lane> lanes_;
  std::vector<ImportedProblem> results_;  // one for each file
  std::vector<bool> done_;
  std::vector<size_t> todo_;
  ImportReport report_;
};

}  // namespace

Json ImportJson(const ImportReport& report) {
  const Counts c = CountsOf(report);
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

std::string ImportSummary(const ImportReport& report) {
  report::Table table({{"problem"}, {"imported"}, {"oracle"}, {"filter"}, {"why"}});
  for (const ImportedProblem& p : report.problems) {
    if (p.filter.verdict == "clean") continue;
    const std::string& why = !p.refusal.empty()          ? p.refusal
                             : p.oracle.verdict != "ran" ? p.oracle.message
                                                         : p.filter.message;
    table.Add({p.name, p.refusal.empty() ? "yes" : "no", p.oracle.verdict, p.filter.verdict,
               Shortened(why)});
  }
  const Counts c = CountsOf(report);
  return fmt::format(
      "{}{} problems: {} imported, {} ran on the CPU ({} of them at reduced sizes), {} passed the "
      "filters, {} flagged{}\n",
      table.empty() ? "" : table.Render() + "\n", c.problems, c.imported, c.ran, c.reduced, c.clean,
      c.flagged, report.interrupted ? "; interrupted" : "");
}

Result<int> RunImportReport(const ImportCommand& command, const std::vector<app::TaskFile>& files) {
  return ReportRun(command, files).Run();
}

}  // namespace cupel::cli
