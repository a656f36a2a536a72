// SPDX-License-Identifier: Apache-2.0
#include "cli/run_summary.h"

#include <fmt/format.h>

namespace cupel::cli {
namespace {

struct Kind {
  std::string_view name, unit, of_one_call, times_are;
};

constexpr Kind kKinds[] = {
    {"estimated_us", " us (estimate)", "estimated time of one call", "emulator estimates"},
    {"median_us", " us", "measured time of one call, cold", "measured on a GPU"},
    {"energy_mj", " mJ", "measured energy of one call, warm", "measured on a GPU"},
    {"mix", "", "root of microseconds times millijoules", "measured on a GPU"}};

const Kind& KindNamed(std::string_view name) {
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return kind;
  }
  return kKinds[0];
}

/// Of the whole run; an archive without a verdict yet has estimates to come, or says so later.
Result<Kind> KindOf(const archive::Archive& archive,
                    const std::vector<archive::Candidate>& candidates) {
  if (candidates.empty()) return kKinds[0];
  TRY_ASSIGN(const auto verdict, archive.LatestVerdict(candidates.front().id));
  return verdict ? KindNamed(verdict->objective_kind) : kKinds[0];
}

Json ToJson(const archive::Candidate& candidate, const Kind& kind) {
  Json json{{"candidate", candidate.id},
            {"generation", candidate.generation},
            {"proposer", candidate.proposer},
            {"change", candidate.description},
            {"source_hash", candidate.source_hash}};
  json[std::string(kind.name)] = candidate.objective ? Json(*candidate.objective) : Json();
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

std::string LineageText(const std::vector<archive::Candidate>& lineage, const Kind& kind) {
  std::string text = fmt::format("Lineage ({}):\n", kind.of_one_call);
  const std::string_view unit = kind.unit.substr(0, kind.unit.find(" ("));
  for (const archive::Candidate& step : lineage) {
    text += fmt::format("  {:>4}  {:>10.3f}{}  {}\n", step.id, step.objective.value_or(0), unit,
                        step.description);
  }
  return text;
}

/// What came of it, for people.
std::string GainText(const std::vector<archive::Candidate>& lineage, const Kind& kind) {
  const bool estimate = kind.name == "estimated_us";
  if (lineage.size() == 1) {
    return fmt::format("Nothing gained: no variant is {} better than the start.\n",
                       estimate ? "estimated to be" : "measured to be");
  }
  const double start = lineage.front().objective.value_or(0);
  const double best = lineage.back().objective.value_or(0);
  if (!estimate) {
    return fmt::format("Gained: {:.2f}x, measured ({} -> {}).\n", start / best,
                       ObjectiveText(kind.name, start), ObjectiveText(kind.name, best));
  }
  return fmt::format(
      "Gained: {:.2f}x by the emulator's estimate ({:.3f} -> {:.3f} us); measure it on a GPU "
      "before "
      "you believe it.\n",
      start / best, start, best);
}

}  // namespace

std::string ObjectiveText(std::string_view kind, double value) {
  return fmt::format("{:.3f}{}", value, KindNamed(kind).unit);
}

Result<RunSummary> Summarise(const archive::Archive& archive, const std::filesystem::path& folder) {
  RunSummary summary;
  TRY_ASSIGN(const archive::RunInfo run, archive.Run());
  TRY_ASSIGN(const archive::Counts counts, archive.Count());
  TRY_ASSIGN(const auto all, archive.List());
  TRY_ASSIGN(summary.best, archive.Best());
  TRY_ASSIGN(const Kind kind, KindOf(archive, all));
  summary.json =
      Json{{"schema", "cupel.run/1"},    {"task", run.task},        {"direction", run.direction},
           {"status", Name(run.status)}, {"seed", run.seed},        {"times_are", kind.times_are},
           {"objective", kind.name},     {"counts", ToJson(counts)}};
  summary.text = fmt::format("{} {}: {} candidates, {} accepted, {} rejected, {} unsupported{}\n",
                             run.task, run.direction, counts.total(), counts.accepted,
                             counts.rejected, counts.unsupported,
                             counts.queued + counts.evaluating > 0
                                 ? fmt::format(", {} waiting", counts.queued + counts.evaluating)
                                 : "");
  if (!all.empty()) summary.json["start"] = ToJson(all.front(), kind);
  if (!summary.best) {
    if (all.empty()) return summary;
    TRY_ASSIGN(const std::string reasons, StartReasons(archive, all.front()));
    summary.text += reasons;
    return summary;
  }
  TRY_ASSIGN(summary.best_source, archive.Source(summary.best->id));
  TRY_ASSIGN(const auto lineage, archive.Lineage(summary.best->id));
  summary.json["best"] = ToJson(*summary.best, kind);
  summary.json["lineage"] = Json::array();
  for (const archive::Candidate& step : lineage)
    summary.json["lineage"].push_back(ToJson(step, kind));
  summary.text += LineageText(lineage, kind);
  if (counts.queued + counts.evaluating > 0) {
    summary.text +=
        fmt::format("Not finished: go on with cupel optimize --resume {}\n", folder.string());
    return summary;
  }
  summary.text += fmt::format("Best kernel: {}\n", (folder / kBestFile).string());
  summary.text += GainText(lineage, kind);
  return summary;
}

}  // namespace cupel::cli
