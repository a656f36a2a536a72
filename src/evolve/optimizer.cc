// SPDX-License-Identifier: Apache-2.0
#include "evolve/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <future>
#include <utility>

#include "base/json.h"
#include "base/random.h"
#include "evolve/tuner.h"
#include "os/fd.h"
#include "os/process.h"

namespace cupel::evolve {
namespace {

Json ToJson(const Assignment& assignment) {
  Json json = Json::object();
  for (const auto& [name, value] : assignment) json[name] = value;
  return json;
}

Result<Assignment> AssignmentFromJson(const Json& json) {
  Assignment assignment;
  if (!json.is_object())
    return Fail(ErrorCode::kIo, "the archive holds tunables that are no object");
  for (const auto& [name, value] : json.items()) {
    if (!value.is_number_integer()) {
      return Fail(ErrorCode::kIo, "the archive holds a tunable that is no integer: " + name);
    }
    assignment[name] = value.get<int64_t>();
  }
  return assignment;
}

Result<Assignment> AssignmentOf(const archive::Candidate& candidate) {
  TRY_ASSIGN(const Json json, ParseJson(candidate.tunables, "tunables in the archive"));
  return AssignmentFromJson(json);
}

/// "kTile 16 -> 32, kRows 1 -> 2" against the parent.
std::string Difference(const std::vector<Tunable>& tunables, const Assignment& parent,
                       const Assignment& child) {
  std::string text;
  for (const Tunable& tunable : tunables) {
    const auto value = [&](const Assignment& a) {
      const auto it = a.find(tunable.name);
      return it == a.end() ? tunable.value : it->second;
    };
    if (value(parent) != value(child)) {
      text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", tunable.name, value(parent),
                          value(child));
    }
  }
  return text;
}

}  // namespace

Optimizer::Optimizer(archive::Archive& archive, assay::Assay& assay, Objective& objective,
                     assay::Question question, OptimizeOptions options,
                     std::function<void(const OptimizeProgress&)> progress)
    : archive_(archive),
      assay_(assay),
      objective_(objective),
      question_(std::move(question)),
      options_(std::move(options)),
      progress_(std::move(progress)) {}

Result<OptimizeResult> Optimizer::Run(const std::string& start) {
  TRY(archive_.RequeueInterrupted());
  TRY(AddStart(start));
  TRY(EvaluateQueue());
  TRY_ASSIGN(auto best, archive_.Best());
  result_.start_accepted = best.has_value();
  if (!best) return std::move(result_);
  for (;;) {
    TRY_ASSIGN(const bool proposed, ProposeGeneration(start));
    if (!proposed) break;
    TRY(EvaluateQueue());
  }
  return std::move(result_);
}

Status Optimizer::AddStart(const std::string& start) {
  archive::NewCandidate candidate;
  candidate.source = start;
  candidate.proposer = "baseline";
  candidate.description = "the starting kernel";
  TRY(archive_.AddCandidate(candidate));
  return {};
}

/// Puts the next generation into the queue; false when the run is at its end. The proposals are
/// written to the state before they become candidates: a kill in between loses none and repeats
/// none.
Result<bool> Optimizer::ProposeGeneration(const std::string& start) {
  TRY_ASSIGN(const std::vector<Tunable> tunables, FindTunables(start));
  TRY_ASSIGN(const archive::Counts counts, archive_.Count());
  TRY_ASSIGN(const std::optional<archive::Candidate> best, archive_.Best());
  TRY_ASSIGN(const std::string state_text, archive_.State());
  TRY_ASSIGN(Json state, ParseJson(state_text, "run state"));
  const int64_t tried = counts.total() - 1;
  const int generation = state.is_object() ? state.value("generation", 0) : 0;

  const bool unfinished = state.is_object() && state.value("pending", false);
  if (!unfinished) {
    const int64_t left = options_.candidates - tried;
    if (left <= 0) {
      result_.end = "all candidates tried";
      return false;
    }
    TRY_ASSIGN(const Assignment from, AssignmentOf(*best));
    Status status;
    const auto is_new = [&](const Assignment& assignment) {
      auto source = Rewrite(start, tunables, assignment);
      auto known = source
                       ? archive_.FindBySource(*source)
                       : Result<std::optional<archive::Candidate>>(tl::unexpected(source.error()));
      if (!known) status = tl::unexpected(known.error());
      return known && !known->has_value();
    };
    const Random random = Random(options_.seed).Fork(fmt::format("generation {}", generation + 1));
    const auto proposals = Propose(
        tunables, from, static_cast<int>(std::min<int64_t>(options_.batch, left)), random, is_new);
    TRY(status);
    if (proposals.empty()) {
      result_.end =
          tunables.empty() ? "the kernel has no tunable constants" : "no variants left to try";
      return false;
    }
    state = Json{{"generation", generation + 1}, {"pending", true}, {"parent", best->id}};
    for (const Assignment& proposal : proposals) state["proposals"].push_back(ToJson(proposal));
    TRY(archive_.PutState(DumpJson(state)));
  }

  TRY_ASSIGN(const int64_t parent_id, JsonInt(state, "parent", "run state"));
  TRY_ASSIGN(const int64_t number, JsonInt(state, "generation", "run state"));
  TRY_ASSIGN(const archive::Candidate parent, archive_.Get(parent_id));
  TRY_ASSIGN(const Assignment from, AssignmentOf(parent));
  TRY_ASSIGN(const Json* proposals, JsonArray(state, "proposals", "run state"));
  for (const Json& proposal : *proposals) {
    TRY_ASSIGN(const Assignment assignment, AssignmentFromJson(proposal));
    archive::NewCandidate candidate;
    TRY_ASSIGN(candidate.source, Rewrite(start, tunables, assignment));
    candidate.proposer = "tuner";
    candidate.description = Difference(tunables, from, assignment);
    candidate.tunables = DumpJson(proposal);
    candidate.generation = static_cast<int>(number);
    candidate.parents = {parent_id};
    TRY(archive_.AddCandidate(candidate));
  }
  state["pending"] = false;
  TRY(archive_.PutState(DumpJson(state)));
  return true;
}

std::filesystem::path Optimizer::SourcePath(int64_t candidate) const {
  return options_.source_folder / fmt::format("candidate-{:04}.cu", candidate);
}

/// Judges all queued candidates in order, while the next ones compile.
Status Optimizer::EvaluateQueue() {
  TRY_ASSIGN(const auto queued, archive_.List(archive::CandidateStatus::kQueued));
  for (const archive::Candidate& candidate : queued) {
    TRY_ASSIGN(const std::string source, archive_.Source(candidate.id));
    TRY(os::WriteFileAtomically(SourcePath(candidate.id), source));
  }
  std::deque<std::future<Result<assay::Candidate>>> builds;
  size_t next_build = 0;
  for (size_t i = 0; i < queued.size(); ++i) {
    while (next_build < queued.size() &&
           builds.size() < static_cast<size_t>(options_.builds_ahead)) {
      builds.push_back(std::async(
          std::launch::async,
          [this, path = SourcePath(queued[next_build].id)] { return assay_.Build(path); }));
      ++next_build;
    }
    TRY(Report(fmt::format("building candidate {}", queued[i].id)));
    Result<assay::Candidate> built = builds.front().get();
    builds.pop_front();
    if (!built) return tl::unexpected(built.error());
    if (os::CancelRequested()) return Fail(ErrorCode::kCancelled, "interrupted");
    TRY_ASSIGN(const auto claimed, archive_.ClaimNext());
    CHECK(claimed && claimed->id == queued[i].id);
    TRY(Report(fmt::format("judging candidate {}", claimed->id)));
    TRY(Evaluate(*claimed, *built));
  }
  return {};
}

Status Optimizer::Evaluate(const archive::Candidate& candidate, const assay::Candidate& built) {
  std::optional<Standing> standing;
  TRY_ASSIGN(assay::Judged judged, JudgeCandidate(candidate, built, &standing));
  const bool accepted = judged.verdict.decision == judge::Decision::kAccepted && standing;
  archive::NewVerdict verdict;
  verdict.decision = judge::Name(judged.verdict.decision);
  verdict.json = DumpJson(judge::ToJson(judged.verdict));
  verdict.objective_kind = objective_.Kind();
  verdict.fresh_cases = standing && standing->is_better;
  if (accepted) verdict.objective = standing->value;
  if (candidate.proposer == "baseline") result_.start_verdict = std::move(judged.verdict);
  TRY_ASSIGN(const int64_t id, archive_.RecordVerdict(candidate.id, verdict));
  if (standing && !standing->samples.empty()) TRY(archive_.AddSamples(id, standing->samples));
  if (accepted && standing->is_better) {
    TRY(archive_.AddEvent("new_best", DumpJson(Json{{"candidate", candidate.id},
                                                    {verdict.objective_kind, standing->value}})));
    champion_.reset();
  }
  return Report(fmt::format("candidate {} {}", candidate.id, verdict.decision));
}

/// The search settings first; then, for one that would be the new best, everything on fresh cases.
Result<assay::Judged> Optimizer::JudgeCandidate(const archive::Candidate& candidate,
                                                const assay::Candidate& built,
                                                std::optional<Standing>* standing) {
  const assay::Question search = SearchQuestion();
  TRY_ASSIGN(assay::Judged judged, assay_.Judge(built, search));
  if (judged.verdict.decision != judge::Decision::kAccepted) return judged;
  TRY_ASSIGN(const std::optional<Champion> champion, BestSoFar());
  TRY_ASSIGN(*standing, objective_.Measure(built, judged.verdict, search, champion));
  if (!*standing) return judged;
  if (const auto& refused = (*standing)->refused) {
    judged.verdict.decision = judge::Decision::kRejected;
    judged.verdict.reasons.push_back(*refused);
    standing->reset();
    return judged;
  }
  if (!(*standing)->is_better) return judged;
  return assay_.Judge(built, FinalQuestion(candidate.id));
}

Result<std::optional<Champion>> Optimizer::BestSoFar() {
  TRY_ASSIGN(const auto best, archive_.Best());
  if (!best) return std::optional<Champion>();
  if (!champion_) {
    TRY_ASSIGN(champion_, assay_.Build(SourcePath(best->id)));
  }
  const auto* image = std::get_if<build::Image>(&champion_->built);
  if (image == nullptr) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("the best kernel, {}, does not compile any more",
                            SourcePath(best->id).string()),
                "restore the file, or the toolkit that the run began with");
  }
  return std::optional<Champion>(Champion{image, *best->objective});
}

/// The objective is compared on the single settings, which the paper times.
assay::Question Optimizer::SearchQuestion() const {
  assay::Question question = question_;
  const auto wants = [&](task::SettingKind kind) {
    return question_.kinds.empty() ||
           std::find(question_.kinds.begin(), question_.kinds.end(), kind) != question_.kinds.end();
  };
  if (wants(task::SettingKind::kSingle)) question.kinds = {task::SettingKind::kSingle};
  question.stop_at_first_failure = true;
  question.distributions.clear();
  if (options_.user_seed) question.seed = Random(options_.seed).Fork("search")();
  return question;
}

assay::Question Optimizer::FinalQuestion(int64_t candidate) const {
  assay::Question question = question_;
  question.stop_at_first_failure = true;
  question.fresh_cases = true;
  if (options_.user_seed) {
    question.seed = Random(options_.seed).Fork(fmt::format("final {}", candidate))();
  }
  return question;
}

Status Optimizer::Report(const std::string& stage) {
  OptimizeProgress progress;
  progress.stage = stage;
  progress.budget = options_.candidates + 1;
  progress.objective = objective_.Kind();
  TRY_ASSIGN(progress.counts, archive_.Count());
  TRY_ASSIGN(const auto best, archive_.Best());
  if (best) {
    progress.best = best->id;
    progress.best_value = *best->objective;
    TRY_ASSIGN(const auto lineage, archive_.Lineage(best->id));
    if (!lineage.empty() && lineage.front().objective) {
      progress.start = *lineage.front().objective;
    }
  }
  progress_(progress);
  return {};
}

}  // namespace cupel::evolve
