// SPDX-License-Identifier: Apache-2.0
#include "report/run/document.h"

#include <algorithm>
#include <string>

namespace cupel::report {
namespace {

constexpr size_t kReasonsShown = 5;

template <typename T>
void Put(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

void Put(Json& json, const char* key, const std::string& text) {
  if (!text.empty()) json[key] = text;
}

Json Summary(const RunCandidate& candidate, const ObjectiveKind& kind) {
  Json json{{"candidate", candidate.id},
            {"generation", candidate.generation},
            {"proposer", candidate.proposer},
            {"change", candidate.description},
            {"source_hash", candidate.source_hash}};
  json[std::string(kind.name)] = candidate.objective ? Json(*candidate.objective) : Json();
  return json;
}

Json CountsJson(const archive::Counts& counts) {
  return Json{{"candidates", counts.total()},      {"waiting", counts.queued + counts.evaluating},
              {"accepted", counts.accepted},       {"rejected", counts.rejected},
              {"unsupported", counts.unsupported}, {"error", counts.error},
              {"dropped", counts.dropped}};
}

Json ToJson(const RunStage& stage) {
  Json json{{"stage", stage.name}, {"passed", stage.passed}, {"seconds", stage.seconds}};
  Put(json, "note", stage.note);
  if (!stage.reasons.empty()) json["why"] = stage.reasons.front().message;
  for (const RunVote& vote : stage.votes) {
    Json one{{"aspect", vote.aspect}};
    Put(one, "model", vote.model);
    Put(one, "fine", vote.fine);
    Put(one, "confidence", vote.confidence);
    Put(one, "line", vote.line);
    Put(one, "reason", vote.reason);
    Put(one, "exchange", vote.exchange);
    json["votes"].push_back(std::move(one));
  }
  return json;
}

Json ToJson(const RunCandidate& candidate, const ObjectiveKind& kind) {
  Json json = Summary(candidate, kind);
  json["outcome"] = candidate.outcome;
  json["new_best"] = candidate.new_best;
  json["parents"] = candidate.parents;
  Put(json, "operator", candidate.how);
  Put(json, "name", candidate.name);
  Put(json, "model", candidate.model);
  Put(json, "island", candidate.island);
  Put(json, "proposal", candidate.proposal);
  if (!candidate.hints.empty()) json["hints"] = candidate.hints;
  Put(json, "fell_at", candidate.fell_at);
  Json& reasons = json["reasons"] = Json::array();
  for (const RunReason& reason : candidate.reasons) {
    if (reasons.size() == kReasonsShown) break;
    reasons.push_back(ToJson(reason));
  }
  Json& stages = json["stages"] = Json::array();
  for (const RunStage& stage : candidate.stages) stages.push_back(ToJson(stage));
  return json;
}

Json ToJson(const RunGeneration& row) {
  Json json{{"generation", row.generation},
            {"candidates", row.candidates},
            {"judged", row.judged},
            {"accepted", row.accepted}};
  Put(json, "asked", row.asked);
  Put(json, "unusable", row.unusable);
  Put(json, "copies", row.copies);
  Put(json, "reviewed", row.reviewed);
  Put(json, "seconds", row.seconds);
  Put(json, "best", row.best);
  Put(json, "best_candidate", row.best_candidate);
  return json;
}

Json ToJson(const RunQuestions& row) {
  return Json{{"role", row.role},
              {"model", row.model},
              {"asked", row.asked},
              {"answered", row.answered},
              {"failed", row.failed},
              {"input_tokens", row.input_tokens},
              {"output_tokens", row.output_tokens},
              {"charged_tokens", row.charged_tokens},
              {"tokens_are_estimates", row.tokens_are_estimates},
              {"usd", row.usd},
              {"seconds", row.seconds},
              {"candidates", row.candidates},
              {"accepted", row.accepted}};
}

Json ContributorJson(const RunContributor& row, const char* name, const char* asked,
                     const char* rewarded) {
  Json json{{name, row.name}};
  Put(json, "text", row.text);
  json["candidates"] = row.candidates;
  json["judged"] = row.judged;
  json["accepted"] = row.accepted;
  json["new_bests"] = row.new_bests;
  Put(json, "best", row.best);
  Put(json, asked, row.asked);
  Put(json, rewarded, row.rewarded);
  Put(json, "expected", row.expected);
  return json;
}

Json ToJson(const RunCascade& row) {
  Json json{{"stage", row.stage},
            {"in", row.in},
            {"passed", row.passed},
            {"fell", row.fell()},
            {"seconds", row.seconds}};
  Put(json, "saved_seconds", row.saved_seconds);
  json["judged_anyway"] = row.judged_anyway;
  json["good"] = row.good;
  return json;
}

Json ToJson(const RunUnusable& row) {
  Json json{{"model", row.model}, {"reason", row.reason}};
  Put(json, "generation", row.generation);
  Put(json, "exchange", row.exchange);
  return json;
}

Json ToJson(const archive::Cost& cost) {
  return Json{{"kind", cost.kind},
              {"seconds", cost.seconds},
              {"usd", cost.usd},
              {"input_tokens", cost.input_tokens},
              {"output_tokens", cost.output_tokens}};
}

template <typename Rows>
Json ListJson(const Rows& rows) {
  Json list = Json::array();
  for (const auto& row : rows) list.push_back(ToJson(row));
  return list;
}

void AddBest(const Run& run, Json& json) {
  if (!run.candidates.empty()) json["start"] = Summary(run.candidates.front(), run.kind);
  const RunCandidate* best = run.best ? run.Find(*run.best) : nullptr;
  if (best == nullptr) return;
  json["best"] = Summary(*best, run.kind);
  Json& lineage = json["lineage"] = Json::array();
  for (const int64_t id : run.lineage) {
    const RunCandidate* step = run.Find(id);
    if (step != nullptr) lineage.push_back(Summary(*step, run.kind));
  }
  Put(json, "gain", run.Gain());
  if (!run.references.empty()) json["references"] = run.references;
  if (!run.named_us.empty()) json["named_references"] = run.named_us;
  if (run.to_best) json["to_best"] = ToJson(*run.to_best);
  if (!run.evidence.is_null()) json["evidence"] = run.evidence;
  if (!run.profile.is_null()) json["profile"] = run.profile;
}

}  // namespace

Json ToJson(const RunReason& reason) {
  return Json{{"code", reason.code}, {"message", reason.message}, {"where", reason.where}};
}

Json ToJson(const RunSpent& spent) {
  return Json{{"questions", spent.questions},
              {"charged_tokens", spent.tokens},
              {"input_tokens", spent.input_tokens},
              {"output_tokens", spent.output_tokens},
              {"tokens_are_estimates", spent.tokens_are_estimates},
              {"usd", spent.usd},
              {"judged", spent.judged},
              {"seconds", spent.seconds}};
}

Json RunDocument(const Run& run) {
  Json json{{"schema", "cupel.run/1"},         {"task", run.info.task},
            {"direction", run.info.direction}, {"status", Name(run.info.status)},
            {"seed", run.info.seed},           {"times_are", run.kind.times_are},
            {"objective", run.kind.name},      {"counts", CountsJson(run.counts)}};
  AddBest(run, json);
  json["cupel"] = run.info.cupel_version;
  json["created_ms"] = run.info.created_ms;
  json["config"] = run.config;
  json["spent"] = ToJson(run.spent);
  json["generations"] = ListJson(run.generations);
  Json& candidates = json["candidates"] = Json::array();
  for (const RunCandidate& candidate : run.candidates) {
    candidates.push_back(ToJson(candidate, run.kind));
  }
  json["cascade"] = ListJson(run.cascade);
  json["questions"] = ListJson(run.questions);
  Json& models = json["models"] = Json::array();
  for (const RunContributor& row : run.models) {
    models.push_back(ContributorJson(row, "model", "asked", "rewarded"));
  }
  Json& hints = json["hints"] = Json::array();
  for (const RunContributor& row : run.hints) {
    hints.push_back(ContributorJson(row, "hint", "tried", "earned"));
  }
  json["unusable"] = ListJson(run.unusable);
  json["costs"] = ListJson(run.other_costs);
  return json;
}

}  // namespace cupel::report
