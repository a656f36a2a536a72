// Tools for runs of `cupel optimize` and for the records of the server's own calls.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "app/search/run_summary.h"
#include "archive/archive.h"
#include "cli/mcp/brief.h"
#include "cli/mcp/command.h"
#include "cli/mcp/schemas.h"
#include "os/files.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

namespace fs = std::filesystem;
using serve::McpAnswer;
using serve::McpCall;

constexpr size_t kMostRuns = 200;
constexpr size_t kMostPart = 48u << 10;
constexpr const char* kRunsFolder = "cupel-runs";

Json TextType() { return {{"type", "string"}}; }

/// The archives in `folder` and one level below; `cupel optimize` puts its runs there.
Result<std::vector<archive::RunSummary>> RunsBelow(const fs::path& folder) {
  std::vector<fs::path> folders{folder};
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->is_directory(error)) folders.push_back(it->path());
  }
  if (error) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("cannot list {}: {}", folder.string(), error.message()),
                "give the folder that contains runs of cupel optimize");
  }
  std::vector<archive::RunSummary> runs;
  for (const fs::path& one : folders) {
    TRY_ASSIGN(auto found, archive::ListRuns(one));
    std::move(found.begin(), found.end(), std::back_inserter(runs));
  }
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) {
    return std::pair(b.run.created_ms, a.file) < std::pair(a.run.created_ms, b.file);
  });
  return runs;
}

Result<McpAnswer> ListRuns(const std::string& folder) {
  TRY_ASSIGN(const auto runs, RunsBelow(folder));
  McpAnswer answer;
  Json list = Json::array();
  for (const archive::RunSummary& one : runs) {
    if (list.size() == kMostRuns) break;
    const std::string run = one.file.parent_path().string();
    if (!one.problem.empty()) {
      list.push_back({{"run", run}, {"status", "unreadable"}, {"problem", one.problem}});
      answer.text += fmt::format("{}: {}\n", run, Printable(one.problem));
      continue;
    }
    list.push_back({{"run", run},
                    {"task", one.run.task},
                    {"direction", one.run.direction},
                    {"status", Name(one.run.status)},
                    {"candidates", one.counts.total()},
                    {"accepted", one.counts.accepted},
                    {"best", one.best_objective ? Json(*one.best_objective) : Json()}});
    answer.text += fmt::format("{}: {} {}, {}, {} candidates, {} accepted\n", run,
                               Printable(one.run.task), one.run.direction, Name(one.run.status),
                               one.counts.total(), one.counts.accepted);
  }
  if (list.empty()) answer.text = fmt::format("no runs in {}\n", folder);
  answer.structured = {{"runs", std::move(list)}};
  return answer;
}

Result<McpAnswer> ShowCandidate(const Json& arguments) {
  const fs::path folder = arguments["run"].get<std::string>();
  TRY_ASSIGN(const archive::Archive archive,
             archive::Archive::Open(folder / app::kRunFile, archive::Access::kReadOnly));
  std::optional<archive::Candidate> candidate;
  if (arguments.contains("candidate")) {
    TRY_ASSIGN(candidate, archive.Get(arguments["candidate"].get<int64_t>()));
  } else {
    TRY_ASSIGN(candidate, archive.Best());
  }
  if (!candidate) {
    return Fail(ErrorCode::kNotFound, fmt::format("{} has no accepted candidate", folder.string()),
                "choose a candidate by number with \"candidate\"; 1 is the starting kernel");
  }
  TRY_ASSIGN(const std::string source, archive.Source(candidate->id));
  TRY_ASSIGN(const auto verdict, archive.LatestVerdict(candidate->id));
  Json json{{"candidate", candidate->id},
            {"generation", candidate->generation},
            {"parents", candidate->parents},
            {"proposer", candidate->proposer},
            {"change", candidate->description},
            {"status", Name(candidate->status)},
            {"decision", candidate->decision},
            {"objective", candidate->objective ? Json(*candidate->objective) : Json()},
            {"objective_kind", verdict ? verdict->objective_kind : ""},
            {"reasons", Json::array()}};
  if (verdict) {
    TRY_ASSIGN(const Json whole, ParseJson(verdict->json, "verdict in the archive"));
    if (whole.is_object()) json["reasons"] = whole.value("reasons", Json::array());
  }
  McpAnswer answer;
  answer.structured = Brief(std::move(json), {}, kMostPart);
  answer.structured["source"] = source;
  answer.text = fmt::format("// candidate {} of {}: {} {}\n{}", candidate->id, folder.string(),
                            Printable(candidate->description), candidate->decision, source);
  return answer;
}

serve::McpTool CandidateTool() {
  serve::McpTool tool;
  tool.name = "run_candidate";
  tool.title = "Show a candidate of a run";
  tool.description =
      "Shows the source, origin and verdict of one candidate of a run of cupel optimize: the best, "
      "or the one with a given number.";
  tool.input = Arguments(
      {{"run", TextSchema("Folder of the run.")},
       {"candidate", IntegerSchema("Number of the candidate. Default: the best.", 1, INT64_MAX)}},
      {"run"});
  tool.output = AnswerOf({{"candidate", {{"type", "integer"}}}, {"source", TextType()}},
                         {"candidate", "source"});
  tool.run = [](const Json& arguments, McpCall&) {
    auto answer = ShowCandidate(arguments);
    return answer ? *std::move(answer) : serve::McpFailure(answer.error());
  };
  return tool;
}

serve::McpTool ReportTool(const McpSetting& setting) {
  serve::McpTool tool;
  tool.name = "run_report";
  tool.title = "Report on a run";
  tool.description =
      "Shows what a run of cupel optimize tried and found: counts, the best candidate, its "
      "lineage.";
  tool.input = Arguments({{"run", TextSchema("Folder of the run.")}}, {"run"});
  Json properties{{"task", TextType()}, {"status", TextType()}};
  AddRecord(properties);
  tool.output = AnswerOf(std::move(properties), {"task", "status", "record", "left_out"});
  tool.run = [&setting](const Json& arguments, McpCall& call) {
    auto line = McpCommandLine::Begin(setting, {"report"});
    if (!line) return serve::McpFailure(line.error());
    line->AddFile(arguments["run"].get<std::string>());
    return line->Run(call, {});
  };
  return tool;
}

Result<McpAnswer> ShowRecord(const McpSetting& setting, const Json& arguments) {
  TRY_ASSIGN(const McpRecord record, setting.records->Find(arguments["record"].get<int64_t>()));
  TRY_ASSIGN(const std::string text, os::ReadFile(record.Document(), kMaxJsonBytes));
  TRY_ASSIGN(const Json document, ParseJson(text, "record"));
  const Json* part = &document;
  const std::string pointer = arguments.value("pointer", "");
  try {
    part = &document.at(Json::json_pointer(pointer));
  } catch (const Json::exception&) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("there is no {} in record {}", pointer.substr(0, 200), record.number),
                "give a JSON pointer, e.g. /settings/0/findings; without one, a summary of the "
                "record is shown");
  }
  McpAnswer answer;
  answer.structured = Brief(Json{{"value", *part}}, {}, kMostPart);
  answer.text = DumpJson(answer.structured, 1);
  return answer;
}

}  // namespace

std::vector<serve::McpTool> RunTools(const McpSetting& setting) {
  serve::McpTool list;
  list.name = "run_list";
  list.title = "List runs";
  list.description = "Lists the runs of cupel optimize in a folder, the newest first.";
  list.input = Arguments(
      {{"folder",
        TextSchema(fmt::format("Default: {} in the server's current folder.", kRunsFolder))}},
      {});
  list.output = AnswerOf({{"runs", {{"type", "array"}}}}, {"runs"});
  list.run = [](const Json& arguments, McpCall&) {
    auto answer = ListRuns(arguments.value("folder", kRunsFolder));
    return answer ? *std::move(answer) : serve::McpFailure(answer.error());
  };
  return {list, ReportTool(setting), CandidateTool()};
}

serve::McpTool RecordTool(const McpSetting& setting) {
  serve::McpTool tool;
  tool.name = "record";
  tool.title = "Show more of a call's result";
  tool.description =
      "Shows a part of the whole document behind an answer, by its record number. Use it for the "
      "parts in the answer's left_out, e.g. /settings/0/trials, "
      "/settings/0/counters/launches/0/lines.";
  tool.input = Arguments(
      {{"record",
        IntegerSchema("Record number of an earlier answer of this server.", 1, INT64_MAX)},
       {"pointer", TextSchema("JSON pointer to the part. Default: a summary of the document.")}},
      {"record"});
  tool.output =
      AnswerOf({{"left_out", {{"type", "array"}, {"items", TextType()}}}}, {"value", "left_out"});
  tool.run = [&setting](const Json& arguments, McpCall&) {
    auto answer = ShowRecord(setting, arguments);
    return answer ? *std::move(answer) : serve::McpFailure(answer.error());
  };
  return tool;
}

}  // namespace cupel::cli
