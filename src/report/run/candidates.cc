// SPDX-License-Identifier: Apache-2.0
#include "report/run/candidates.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "records/json.h"
#include "report/loose_json.h"
#include "report/run/stages.h"
#include "report/run/winner.h"

namespace cupel::report {
namespace {

constexpr size_t kMaxThoughtBytes = 64u << 10;

std::string OutcomeOf(const archive::Candidate& candidate, std::optional<int64_t> best) {
  if (candidate.id == best) return "best";
  if (!candidate.decision.empty()) return candidate.decision;
  return candidate.status == archive::CandidateStatus::kDone ? "dropped" : "waiting";
}

RunCandidate Describe(const archive::Candidate& archived, std::optional<int64_t> best) {
  const Json meta = ObjectFrom(archived.meta);
  RunCandidate candidate;
  candidate.id = archived.id;
  candidate.generation = archived.generation;
  candidate.parents = archived.parents;
  candidate.source_hash = archived.source_hash;
  candidate.proposer = Bounded(archived.proposer);
  candidate.description = Bounded(archived.description);
  candidate.objective = archived.objective;
  candidate.outcome = OutcomeOf(archived, best);
  candidate.how = TextAt(meta, "operator", 200);
  if (candidate.how.empty() && archived.proposer == "tuner") candidate.how = "tune";
  candidate.name = TextAt(meta, "name");
  candidate.thought = TextAt(meta, "thought", kMaxThoughtBytes);
  candidate.model = TextAt(meta, "model", 200);
  if (candidate.model.empty() && archived.proposer.rfind("llm:", 0) == 0) {
    candidate.model = Bounded(archived.proposer.substr(4), 200);
  }
  candidate.exchange = TextAt(meta, "exchange", 200);
  candidate.hints = TextsAt(meta, "hints");
  candidate.island = IntAt(meta, "island");
  candidate.proposal = IntAt(meta, "proposal");
  return candidate;
}

/// Sets the stage at which the candidate failed, with reasons: the last stage that it did not pass.
/// Nothing is set if it was accepted nevertheless.
void SetDropReason(RunCandidate& candidate, std::vector<RunReason> verdict_reasons) {
  if (candidate.accepted() || candidate.outcome == "waiting") return;
  const auto last = std::find_if(candidate.stages.rbegin(), candidate.stages.rend(),
                                 [](const RunStage& stage) { return !stage.passed; });
  if (last != candidate.stages.rend()) candidate.fell_at = last->name;
  // A verdict's reasons are more detailed than those of the stage.
  candidate.reasons = std::move(verdict_reasons);
  if (candidate.reasons.empty() && last != candidate.stages.rend()) {
    candidate.reasons = last->reasons;
  }
}

std::map<int64_t, std::vector<RunStage>> ByCandidate(const std::vector<archive::Stage>& stages) {
  std::map<int64_t, std::vector<RunStage>> by;
  for (const archive::Stage& stage : stages) by[stage.candidate].push_back(StageFrom(stage));
  return by;
}

/// Reads the verdict. For the best candidate, also adds the evidence and the profile to `run`.
Status AddVerdict(const archive::Archive& archive, const archive::StoredVerdict& stored, Run& run,
                  RunCandidate& candidate) {
  // A report shows what there is.
  const records::Verdict verdict =
      records::ReadVerdict(ObjectFrom(stored.json), "verdict", records::kTolerant)
          .value_or(records::Verdict{});
  candidate.judged = true;
  candidate.judged_ms = stored.created_ms;
  PlaceVerdict(verdict, candidate.accepted(), candidate.stages);
  SetDropReason(candidate, ReasonsFrom(verdict.reasons));
  const bool begins = !run.lineage.empty() && candidate.id == run.lineage.front();
  if (begins) run.profile["start"] = ProfileOf(verdict);
  if (candidate.id != run.best) return {};
  TRY_ASSIGN(const auto samples, archive.Samples(stored.id));
  run.evidence = EvidenceOf(stored, verdict, samples);
  run.profile["best"] = ProfileOf(verdict);
  return {};
}

Result<std::set<int64_t>> NewBests(const archive::Archive& archive) {
  TRY_ASSIGN(const auto events, archive.Events());
  std::set<int64_t> ids;
  for (const archive::Event& event : events) {
    if (event.kind != "new_best") continue;
    if (const auto id = IntAt(ObjectFrom(event.detail), "candidate")) ids.insert(*id);
  }
  return ids;
}

}  // namespace

Status ReadCandidates(const archive::Archive& archive, Run& run) {
  TRY_ASSIGN(const auto best, archive.Best());
  if (best) {
    run.best = best->id;
    TRY_ASSIGN(const auto lineage, archive.Lineage(best->id));
    for (const archive::Candidate& step : lineage) run.lineage.push_back(step.id);
  }
  TRY_ASSIGN(const auto all, archive.List());
  TRY_ASSIGN(const auto recorded, archive.Stages());
  TRY_ASSIGN(const std::set<int64_t> new_bests, NewBests(archive));
  auto stages = ByCandidate(recorded);
  std::string kind;
  for (const archive::Candidate& archived : all) {
    RunCandidate& candidate = run.candidates.emplace_back(Describe(archived, run.best));
    candidate.stages = std::move(stages[candidate.id]);
    if (!candidate.exchange.empty()) run.asked_about[candidate.exchange] = candidate.id;
    for (const RunStage& stage : candidate.stages) {
      for (const RunVote& vote : stage.votes) run.asked_about[vote.exchange] = candidate.id;
    }
    candidate.new_best = new_bests.count(candidate.id) > 0;
    TRY_ASSIGN(const auto stored, archive.LatestVerdict(candidate.id));
    if (!stored) {
      SetDropReason(candidate, {});
      continue;
    }
    if (kind.empty()) kind = stored->objective_kind;
    TRY(AddVerdict(archive, *stored, run, candidate));
  }
  run.kind = ObjectiveKindNamed(kind);
  return {};
}

}  // namespace cupel::report
