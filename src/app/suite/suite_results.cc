// SPDX-License-Identifier: Apache-2.0
#include "app/suite/suite_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <system_error>

#include "judge/record.h"
#include "os/files.h"
#include "records/digest.h"
#include "report/suite/document.h"
#include "report/suite/html.h"
#include "report/suite/merge.h"
#include "report/suite/svg.h"
#include "report/suite/tables.h"
#include "term/text.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

/// Opens the store of a run. `alternative` is added to the remedy.
Result<archive::SuiteStore> OpenSuite(const fs::path& folder, std::string_view alternative) {
  const fs::path file = folder / archive::kSuiteFile;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{} is not the folder of a suite run", folder.string()),
                fmt::format("give the folder that cupel suite run got with -o{}", alternative));
  }
  return archive::SuiteStore::Open(file, archive::Access::kReadOnly);
}

Result<Json> ReadDocument(const fs::path& file) {
  TRY_ASSIGN(const std::string text, os::ReadFile(file, kMaxJsonBytes));
  return ParseJson(text, file.string());
}

/// Reads the results of a run. For a folder with a store, they are made from the store; otherwise
/// results.json is read.
Result<Json> ReadResults(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return ReadDocument(path);
  if (HasOnlyResults(path)) return ReadDocument(path / "results.json");
  TRY_ASSIGN(const auto store, OpenSuite(path, ", or its results.json"));
  return report::SuiteDocument(store);
}

Result<report::Suite> ReadSuiteRun(const fs::path& path) {
  TRY_ASSIGN(const Json document, ReadResults(path));
  return report::ReadSuite(document, path.string());
}

/// The name of the run's folder, without its path.
std::string NameOfRun(const fs::path& path) {
  std::error_code ignored;
  const bool is_file = fs::is_regular_file(path, ignored);
  if (is_file && path.filename() != "results.json") return path.stem().string();
  const fs::path folder = (fs::absolute(path, ignored) / (is_file ? ".." : ".")).lexically_normal();
  return folder.parent_path().filename().string();
}

Result<SuiteResults> WriteResults(Json document, const fs::path& folder) {
  SuiteResults written;
  written.document = std::move(document);
  TRY_ASSIGN(written.suite, report::ReadSuite(written.document, folder.string()));
  written.scores = report::Score(written.suite);
  const report::Suite& suite = written.suite;
  const report::SuiteScores& scores = written.scores;
  TRY(os::WriteFileAtomically(folder / "results.json", DumpJson(written.document, 2) + "\n"));
  TRY(os::WriteFileAtomically(folder / "results.csv", report::SuiteCsv(suite)));
  TRY(os::WriteFileAtomically(folder / "results.md", report::SuiteMarkdown(suite, scores)));
  TRY(os::WriteFileAtomically(folder / "results.html", report::SuiteHtml(written.document)));
  TRY(os::WriteFileAtomically(folder / "results.svg", report::SuiteSvg(suite, scores)));
  return written;
}

/// The path of an item's record below a folder. ".json" replaces the kernel's extension, or is
/// appended if `append` (when kernels differ only in their extension). Empty if the path would lead
/// out of the folder.
fs::path RecordName(const archive::SuiteItem& item, bool append) {
  fs::path name = fs::path(item.task) / item.kernel;
  if (append) {
    name += ".json";
  } else {
    name.replace_extension(".json");
  }
  const bool leads_out = name.is_absolute() || item.kernel.starts_with('/') ||
                         std::find(name.begin(), name.end(), "..") != name.end();
  return leads_out ? fs::path() : name;
}

/// The record in a form that can be shared: it has the names of kernel and task, not their paths on
/// this machine. `cupel verify` looks for the kernel next to the record.
Json Publishable(Json verdict, const archive::SuiteItem& item) {
  if (!verdict.is_object()) return verdict;  // a worker's answer that is not a record
  verdict["kernel"] = (fs::path(item.task) / item.kernel).string();
  if (verdict.contains("asked") && verdict["asked"].is_object()) {
    verdict["asked"]["task"] = item.task;
  }
  records::AddDigest(verdict);
  return verdict;
}

/// The verdict of an item, even if its times are still missing. Empty if there is none.
Result<std::string> VerdictOf(const archive::SuiteStore& store, const std::string& item) {
  TRY_ASSIGN(const auto outcome, store.OutcomeOf(item));
  if (outcome && !outcome->verdict.empty()) return outcome->verdict;
  TRY_ASSIGN(const auto judged, store.VerdictOf(item));
  return judged ? judged->verdict : "";
}

/// Writes the records into `folder`. Returns their number.
Result<size_t> WriteRecords(const archive::SuiteStore& store, const fs::path& folder) {
  TRY_ASSIGN(const auto items, store.Items());
  std::map<fs::path, int> alike;
  for (const archive::SuiteItem& item : items) ++alike[RecordName(item, false)];
  size_t written = 0;
  for (const archive::SuiteItem& item : items) {
    TRY_ASSIGN(const std::string text, VerdictOf(store, item.id));
    if (text.empty()) continue;
    const fs::path name = RecordName(item, alike[RecordName(item, false)] > 1);
    if (name.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("the name of the item {} cannot be a file name", Printable(item.id)),
                  "read its verdict from the store: docs/formats/suite.md");
    }
    TRY_ASSIGN(const Json verdict, ParseJson(text, item.id));
    std::error_code ignored;
    fs::create_directories((folder / name).parent_path(), ignored);
    TRY(os::WriteFileAtomically(folder / name, DumpJson(Publishable(verdict, item), 2) + "\n"));
    ++written;
  }
  return written;
}

}  // namespace

bool HasOnlyResults(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "results.json", ignored) &&
         !fs::exists(folder / archive::kSuiteFile, ignored);
}

Result<SuiteResults> WriteSuiteResults(const archive::SuiteStore& store, const fs::path& folder) {
  TRY_ASSIGN(Json document, report::SuiteDocument(store));
  return WriteResults(std::move(document), folder);
}

Result<size_t> WriteSuiteRecords(const SuiteReportOptions& options) {
  if (HasOnlyResults(options.run)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} contains results but no verdicts", options.run.string()),
                "give the folder of the run that the results came from");
  }
  TRY_ASSIGN(const auto store, OpenSuite(options.run, ""));
  return WriteRecords(store, options.records);
}

Result<SuiteResults> ReportSuite(const SuiteReportOptions& options) {
  if (HasOnlyResults(options.run)) {
    TRY_ASSIGN(Json document, ReadDocument(options.run / "results.json"));
    return WriteResults(std::move(document), options.run);
  }
  TRY_ASSIGN(const auto store, OpenSuite(options.run, ""));
  return WriteSuiteResults(store, options.run);
}

Result<SuiteResults> MergeSuites(const SuiteMergeOptions& options) {
  std::vector<report::NamedResults> pieces;
  std::map<std::string, int> names;
  for (const fs::path& run : options.runs) {
    std::string name = NameOfRun(run);
    if (const int count = ++names[name]; count > 1) name += fmt::format(" ({})", count);
    TRY_ASSIGN(Json document, ReadResults(run));
    pieces.push_back({std::move(name), std::move(document)});
  }
  TRY_ASSIGN(Json merged, report::MergeSuites(pieces));
  std::error_code ignored;
  if (fs::exists(options.output / archive::kSuiteFile, ignored)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is the folder of a run; merged results would replace its results",
                            options.output.string()),
                "choose another folder with -o");
  }
  fs::create_directories(options.output, ignored);
  return WriteResults(std::move(merged), options.output);
}

Result<report::Comparison> CompareSuites(const SuiteCompareOptions& options) {
  TRY_ASSIGN(const report::Suite a, ReadSuiteRun(options.a));
  TRY_ASSIGN(const report::Suite b, ReadSuiteRun(options.b));
  return report::Compare(a, b);
}

}  // namespace cupel::app
