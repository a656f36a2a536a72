// SPDX-License-Identifier: Apache-2.0
#include "cli/run_summary.h"

#include <fmt/format.h>

namespace cupel::cli {
namespace {

Json ToJson(const archive::Candidate& candidate) {
  Json json{{"candidate", candidate.id},
            {"generation", candidate.generation},
            {"proposer", candidate.proposer},
            {"change", candidate.description},
            {"source_hash", candidate.source_hash}};
  json["estimated_us"] = candidate.objective ? Json(*candidate.objective) : Json();
  return json;
}

Json ToJson(const archive::Counts& counts) {
  return Json{{"candidates", counts.total()},      {"waiting", counts.queued + counts.evaluating},
              {"accepted", counts.accepted},       {"rejected", counts.rejected},
              {"unsupported", counts.unsupported}, {"error", counts.error}};
}

/// Why the starting kernel fell, from its stored verdict.
Result<std::string> StartReasons(const archive::Archive& archive, const archive::Candidate& start) {
  TRY_ASSIGN(const auto verdict, archive.LatestVerdict(start.id));
  if (!verdict) return std::string("The starting kernel has not been judged yet.\n");
  TRY_ASSIGN(const Json json, ParseJson(verdict->json, "verdict in the archive"));
  std::string text = fmt::format("The starting kernel is {}:\n", verdict->decision);
  TRY_ASSIGN(const Json* reasons, JsonArray(json, "reasons", "verdict in the archive"));
  for (const Json& reason : *reasons) {
    TRY_ASSIGN(const std::string code, JsonString(reason, "code", "reason"));
    TRY_ASSIGN(const std::string message, JsonString(reason, "message", "reason"));
    TRY_ASSIGN(const std::string where, JsonString(reason, "where", "reason"));
    text += fmt::format("  {}: {}{}{}\n", code, message, where.empty() ? "" : "   at ", where);
  }
  return text;
}

std::string LineageText(const std::vector<archive::Candidate>& lineage) {
  std::string text = "Lineage (estimated time of one call):\n";
  for (const archive::Candidate& step : lineage) {
    text += fmt::format("  {:>4}  {:>10.3f} us  {}\n", step.id, step.objective.value_or(0),
                        step.description);
  }
  return text;
}

}  // namespace

Result<RunSummary> Summarise(const archive::Archive& archive, const std::filesystem::path& folder) {
  RunSummary summary;
  TRY_ASSIGN(const archive::RunInfo run, archive.Run());
  TRY_ASSIGN(const archive::Counts counts, archive.Count());
  TRY_ASSIGN(const auto all, archive.List());
  TRY_ASSIGN(summary.best, archive.Best());
  summary.json =
      Json{{"schema", "cupel.run/1"},    {"task", run.task}, {"direction", run.direction},
           {"status", Name(run.status)}, {"seed", run.seed}, {"times_are", "emulator estimates"},
           {"counts", ToJson(counts)}};
  summary.text = fmt::format("{} {}: {} candidates, {} accepted, {} rejected, {} unsupported{}\n",
                             run.task, run.direction, counts.total(), counts.accepted,
                             counts.rejected, counts.unsupported,
                             counts.queued + counts.evaluating > 0
                                 ? fmt::format(", {} waiting", counts.queued + counts.evaluating)
                                 : "");
  if (!all.empty()) summary.json["start"] = ToJson(all.front());
  if (!summary.best) {
    if (all.empty()) return summary;
    TRY_ASSIGN(const std::string reasons, StartReasons(archive, all.front()));
    summary.text += reasons;
    return summary;
  }
  TRY_ASSIGN(summary.best_source, archive.Source(summary.best->id));
  TRY_ASSIGN(const auto lineage, archive.Lineage(summary.best->id));
  summary.json["best"] = ToJson(*summary.best);
  summary.json["lineage"] = Json::array();
  for (const archive::Candidate& step : lineage) summary.json["lineage"].push_back(ToJson(step));
  summary.text += LineageText(lineage);
  const double start_us = lineage.front().objective.value_or(0);
  const double best_us = *summary.best->objective;
  if (counts.queued + counts.evaluating > 0) {
    summary.text +=
        fmt::format("Not finished: go on with cupel optimize --resume {}\n", folder.string());
    return summary;
  }
  summary.text += fmt::format("Best kernel: {}\n", (folder / kBestFile).string());
  summary.text +=
      lineage.size() == 1
          ? std::string("Nothing gained: no variant is estimated to be faster than the start.\n")
          : fmt::format(
                "Gained: {:.2f}x by the emulator's estimate ({:.3f} -> {:.3f} us); measure "
                "it on a GPU before you believe it.\n",
                start_us / best_us, start_us, best_us);
  return summary;
}

}  // namespace cupel::cli
