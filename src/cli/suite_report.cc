// `cupel suite report`, `merge` and `compare`. SPDX-License-Identifier: Apache-2.0
#include "cli/suite_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>
#include <system_error>

#include "cli/commands.h"
#include "cli/session.h"
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

/// The store of a run. `or_else` says what else the user may name.
Result<archive::SuiteStore> OpenSuite(const fs::path& folder, std::string_view or_else) {
  const fs::path file = folder / archive::kSuiteFile;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{} is not the folder of a suite run", folder.string()),
                fmt::format("name the one that cupel suite run was given with -o{}", or_else));
  }
  return archive::SuiteStore::Open(file, archive::Access::kReadOnly);
}

Result<Json> ReadDocument(const fs::path& file) {
  TRY_ASSIGN(const std::string text, os::ReadFile(file, kMaxJsonBytes));
  return ParseJson(text, file.string());
}

/// A folder is read from its store, whatever has been written since, or else, like a file, as it
/// is.
Result<Json> ReadResults(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return ReadDocument(path);
  if (HoldsResultsAlone(path)) return ReadDocument(path / "results.json");
  TRY_ASSIGN(const auto store, OpenSuite(path, ", or its results.json"));
  return report::SuiteDocument(store);
}

Result<report::Suite> ReadRun(const fs::path& path) {
  TRY_ASSIGN(const Json document, ReadResults(path));
  return report::ReadSuite(document, path.string());
}

/// That of the folder, and not where it lies.
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

/// Where an item's record goes below a folder, in place of the kernel's ending or, where others are
/// named alike but for that, behind it; empty: it would lead out of the folder.
fs::path RecordName(const archive::SuiteItem& item, bool behind) {
  fs::path name = fs::path(item.task) / item.kernel;
  if (behind) {
    name += ".json";
  } else {
    name.replace_extension(".json");
  }
  const bool leads_out = name.is_absolute() || item.kernel.starts_with('/') ||
                         std::find(name.begin(), name.end(), "..") != name.end();
  return leads_out ? fs::path() : name;
}

/// The record as others may have it: of kernel and task the names, and not where they lay on this
/// machine. `cupel verify` looks for the kernel beside the record.
Json Publishable(Json verdict, const archive::SuiteItem& item) {
  if (!verdict.is_object()) return verdict;  // a worker's answer, and no record
  verdict["kernel"] = (fs::path(item.task) / item.kernel).string();
  if (verdict.contains("asked") && verdict["asked"].is_object()) {
    verdict["asked"]["task"] = item.task;
  }
  judge::Seal(verdict);
  return verdict;
}

/// Also where times are still missing; empty: there is none.
Result<std::string> VerdictOf(const archive::SuiteStore& store, const std::string& item) {
  TRY_ASSIGN(const auto outcome, store.OutcomeOf(item));
  if (outcome && !outcome->verdict.empty()) return outcome->verdict;
  TRY_ASSIGN(const auto judged, store.VerdictOf(item));
  return judged ? judged->verdict : "";
}

/// How many records were written.
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
          fmt::format("the item {} has no name that a file could have", report::Printable(item.id)),
          "take its verdict from the store: docs/formats/suite.md");
    }
    TRY_ASSIGN(const Json verdict, ParseJson(text, item.id));
    std::error_code ignored;
    fs::create_directories((folder / name).parent_path(), ignored);
    TRY(os::WriteFileAtomically(folder / name, DumpJson(Publishable(verdict, item), 2) + "\n"));
    ++written;
  }
  return written;
}

/// The results of a folder, whose records are written where that is asked for.
Result<Json> Gather(const SuiteReportCommand& command) {
  if (HoldsResultsAlone(command.run)) {
    if (command.records.empty()) return ReadDocument(command.run / "results.json");
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} holds results and no verdicts", command.run.string()),
                "name the folder of the run that they are of");
  }
  TRY_ASSIGN(const auto store, OpenSuite(command.run, ""));
  if (!command.records.empty()) {
    TRY_ASSIGN(const size_t records, WriteRecords(store, command.records));
    fmt::print("{} records in {}\n", records, command.records.string());
  }
  return report::SuiteDocument(store);
}

}  // namespace

bool HoldsResultsAlone(const fs::path& folder) {
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
  TRY(WriteJson(command.common.json, written.document));
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
                fmt::format("{} is the folder of a run, whose results these would replace",
                            command.output.string()),
                "name another folder with -o");
  }
  fs::create_directories(command.output, ignored);
  TRY_ASSIGN(const SuiteReport written, WriteResults(std::move(merged), command.output));
  fmt::print("{}", written.text);
  fmt::print("{}\n", (command.output / "results.html").string());
  TRY(WriteJson(command.common.json, written.document));
  return 0;
}

Result<int> Run(const SuiteCompareCommand& command) {
  TRY_ASSIGN(const report::Suite a, ReadRun(command.a));
  TRY_ASSIGN(const report::Suite b, ReadRun(command.b));
  const report::Comparison comparison = report::Compare(a, b);
  fmt::print("{}", report::CompareText(comparison));
  TRY(WriteJson(command.common.json, report::ToJson(comparison)));
  return comparison.worse() ? 1 : 0;
}

}  // namespace cupel::cli
