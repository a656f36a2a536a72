// `cupel suite report`, `merge` and `compare`. SPDX-License-Identifier: Apache-2.0
#include "cli/suite_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>
#include <system_error>

#include "app/session.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "judge/record.h"
#include "os/fd.h"
#include "report/suite_compare.h"
#include "report/suite_document.h"
#include "report/suite_html.h"
#include "report/suite_merge.h"
#include "report/suite_svg.h"
#include "report/suite_tables.h"
#include "report/text.h"

namespace cupel::cli {
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

Result<report::Suite> ReadRun(const fs::path& path) {
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

Result<SuiteReport> WriteResults(Json document, const fs::path& folder) {
  SuiteReport written{"", std::move(document)};
  TRY_ASSIGN(const report::Suite suite, report::ReadSuite(written.document, folder.string()));
  const report::SuiteScores scores = report::Score(suite);
  TRY(os::WriteFileAtomically(folder / "results.json", DumpJson(written.document, 2) + "\n"));
  TRY(os::WriteFileAtomically(folder / "results.csv", report::SuiteCsv(suite)));
  TRY(os::WriteFileAtomically(folder / "results.md", report::SuiteMarkdown(suite, scores)));
  TRY(os::WriteFileAtomically(folder / "results.html", report::SuiteHtml(written.document)));
  TRY(os::WriteFileAtomically(folder / "results.svg", report::SuiteSvg(suite, scores)));
  written.text = report::SuiteText(suite, scores);
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
  judge::AddDigest(verdict);
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
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("the name of the item {} cannot be a file name", report::Printable(item.id)),
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

/// The results of a folder. Also writes the records if --records asks for them.
Result<Json> Gather(const SuiteReportCommand& command) {
  if (HasOnlyResults(command.run)) {
    if (command.records.empty()) return ReadDocument(command.run / "results.json");
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} contains results but no verdicts", command.run.string()),
                "give the folder of the run that the results came from");
  }
  TRY_ASSIGN(const auto store, OpenSuite(command.run, ""));
  if (!command.records.empty()) {
    TRY_ASSIGN(const size_t records, WriteRecords(store, command.records));
    fmt::print("{} records in {}\n", records, command.records.string());
  }
  return report::SuiteDocument(store);
}

}  // namespace

bool HasOnlyResults(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "results.json", ignored) &&
         !fs::exists(folder / archive::kSuiteFile, ignored);
}

Result<SuiteReport> WriteSuiteReport(const archive::SuiteStore& store, const fs::path& folder) {
  TRY_ASSIGN(Json document, report::SuiteDocument(store));
  return WriteResults(std::move(document), folder);
}

Result<int> Run(const SuiteReportCommand& command) {
  TRY_ASSIGN(Json document, Gather(command));
  TRY_ASSIGN(const SuiteReport written, WriteResults(std::move(document), command.run));
  fmt::print("{}", written.text);
  fmt::print("{}\n", (command.run / "results.html").string());
  TRY(WriteJson(command.show.json, written.document));
  return 0;
}

Result<int> Run(const SuiteMergeCommand& command) {
  std::vector<report::NamedResults> pieces;
  std::map<std::string, int> names;
  for (const fs::path& run : command.runs) {
    std::string name = NameOfRun(run);
    if (const int count = ++names[name]; count > 1) name += fmt::format(" ({})", count);
    TRY_ASSIGN(Json document, ReadResults(run));
    pieces.push_back({std::move(name), std::move(document)});
  }
  TRY_ASSIGN(Json merged, report::MergeSuites(pieces));
  std::error_code ignored;
  if (fs::exists(command.output / archive::kSuiteFile, ignored)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is the folder of a run; merged results would replace its results",
                            command.output.string()),
                "choose another folder with -o");
  }
  fs::create_directories(command.output, ignored);
  TRY_ASSIGN(const SuiteReport written, WriteResults(std::move(merged), command.output));
  fmt::print("{}", written.text);
  fmt::print("{}\n", (command.output / "results.html").string());
  TRY(WriteJson(command.show.json, written.document));
  return 0;
}

Result<int> Run(const SuiteCompareCommand& command) {
  TRY_ASSIGN(const report::Suite a, ReadRun(command.a));
  TRY_ASSIGN(const report::Suite b, ReadRun(command.b));
  const report::Comparison comparison = report::Compare(a, b);
  fmt::print("{}", report::CompareText(comparison));
  TRY(WriteJson(command.show.json, report::ToJson(comparison)));
  return comparison.worse() ? 1 : 0;
}

}  // namespace cupel::cli
