// SPDX-License-Identifier: Apache-2.0
#include "report/run/stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "records/json.h"
#include "report/loose_json.h"

namespace cupel::report {
namespace {

constexpr size_t kMostReasons = 20, kMostVotes = 32, kMaxFeedbackBytes = 64u << 10;

std::vector<RunVote> VotesFrom(const Json& detail) {
  std::vector<RunVote> votes;
  const Json& opinions = ListAt(detail, "opinions");
  for (const Json& vote : opinions.empty() ? ListAt(detail, "votes") : opinions) {
    if (votes.size() == kMostVotes) break;
    votes.push_back({TextAt(vote, "aspect"), TextAt(vote, "model"), TextAt(vote, "line"),
                     TextAt(vote, "reason"), TextAt(vote, "exchange", 200), BoolAt(vote, "fine"),
                     NumberAt(vote, "confidence")});
  }
  return votes;
}

/// The aspect, reason and line of each vote against the candidate.
std::vector<RunReason> Objections(const RunStage& stage, std::optional<double> score) {
  std::vector<RunReason> reasons;
  for (const RunVote& vote : stage.votes) {
    if (vote.fine.value_or(true)) continue;
    reasons.push_back({"review", fmt::format("{}: {}", vote.aspect, vote.reason), vote.line});
  }
  if (reasons.empty() && score) {
    reasons.push_back({"review", fmt::format("the reviewers' score is {:.2f}", *score), ""});
  }
  return reasons;
}

std::vector<RunReason> ReasonsIn(const Json& list) {
  std::vector<records::Reason> reasons;
  for (const Json& json : list) {
    if (auto reason = records::ReadReason(json, "reason", records::kTolerant)) {
      reasons.push_back(*std::move(reason));
    }
  }
  return ReasonsFrom(reasons);
}

/// Why a stage was not passed, from the members that this kind of stage records.
std::vector<RunReason> FailureReasons(const RunStage& stage, const Json& detail) {
  std::vector<RunReason> reasons = ReasonsIn(ListAt(detail, "reasons"));
  if (!reasons.empty()) return reasons;
  const Json& refused = ObjectAt(detail, "refused");
  if (!refused.empty()) return ReasonsIn(Json::array({refused}));
  for (const char* key : {"reason", "refused"}) {
    if (std::string text = TextAt(detail, key); !text.empty()) {
      return {{stage.name, std::move(text), TextAt(detail, "where")}};
    }
  }
  if (BoolAt(detail, "refused").value_or(false)) {
    return {{stage.name, "its measurements were refused", ""}};
  }
  if (const auto nearest = IntAt(detail, "nearest")) {
    const double similarity = NumberAt(detail, "similarity").value_or(0);
    return {{"near_copy",
             fmt::format("nearly a copy of candidate {} (similarity {:.3f})", *nearest, similarity),
             ""}};
  }
  if (const auto same = IntAt(detail, "same_work_as")) {
    return {{stage.name, fmt::format("requests the same work as candidate {}", *same), ""}};
  }
  const auto rank = IntAt(detail, "rank"), places = IntAt(detail, "places");
  if (rank && places) {
    return {{stage.name,
             fmt::format("rank {}, but only {} candidates are measured", *rank, *places), ""}};
  }
  reasons = Objections(stage, NumberAt(detail, "score"));
  if (reasons.empty()) {
    const auto ratio = NumberAt(detail, "ratio");
    reasons.push_back({stage.name,
                       ratio ? fmt::format("not better: ratio {:.3f}", *ratio) : "no reason given",
                       ""});
  }
  return reasons;
}

std::string NoteOf(const Json& detail) {
  std::string note;
  const auto add = [&note](std::string_view text) {
    note += fmt::format("{}{}", note.empty() ? "" : ", ", text);
  };
  if (const auto score = NumberAt(detail, "score")) add(fmt::format("score {:.2f}", *score));
  if (const auto ratio = NumberAt(detail, "ratio")) add(fmt::format("ratio {:.3f}", *ratio));
  if (const auto similarity = NumberAt(detail, "similarity")) {
    add(fmt::format("similarity {:.3f}", *similarity));
    if (const auto nearest = IntAt(detail, "nearest")) note += fmt::format(" to {}", *nearest);
  }
  return note;
}

/// The known stages in their order. Others come after them.
constexpr const char* kOrder[] = {"novelty",   "build", "review",  "screen", "effect",
                                  "selection", "judge", "profile", "measure"};

bool OnEngine(const std::string& stage) {
  return stage == "screen" || stage == "judge" || stage == "measure";
}

/// Seconds on the engine, after stage `at`, of one candidate that passed it.
std::optional<double> SecondsAfter(const std::vector<RunCascade>& cascade, size_t at) {
  if (cascade[at].passed == 0) return std::nullopt;
  double seconds = 0;
  for (size_t i = at + 1; i < cascade.size(); ++i) {
    if (OnEngine(cascade[i].stage)) seconds += cascade[i].seconds;
  }
  if (seconds <= 0) return std::nullopt;
  return seconds / static_cast<double>(cascade[at].passed);
}

}  // namespace

std::vector<RunReason> ReasonsFrom(const std::vector<records::Reason>& list) {
  std::vector<RunReason> reasons;
  for (const records::Reason& reason : list) {
    if (reasons.size() == kMostReasons) break;
    reasons.push_back({Bounded(reason.code, 200), reason.message, reason.where});
  }
  return reasons;
}

RunStage StageFrom(const archive::Stage& stage) {
  const Json detail = ObjectFrom(stage.detail);
  RunStage read;
  read.name = Bounded(stage.name, 200);
  read.passed = stage.passed;
  read.seconds = stage.seconds;
  read.votes = VotesFrom(detail);
  read.note = NoteOf(detail);
  if (!stage.passed) read.reasons = FailureReasons(read, detail);
  read.feedback = TextAt(detail, stage.passed ? "feedback" : "lessons", kMaxFeedbackBytes);
  return read;
}

namespace {

/// The stages "build" and "judge", derived from a verdict.
std::vector<RunStage> StagesOfVerdict(const records::Verdict& verdict, bool accepted) {
  const std::vector<RunReason> reasons = ReasonsFrom(verdict.reasons);
  std::vector<RunStage> stages(1);
  stages[0].name = "build";
  stages[0].seconds = verdict.build_seconds;
  stages[0].passed = accepted || !verdict.settings.empty();
  if (!stages[0].passed) {
    stages[0].reasons = reasons;
    return stages;
  }
  RunStage& judge = stages.emplace_back();
  judge.name = "judge";
  judge.seconds = verdict.total_seconds;
  judge.passed = accepted;
  if (!accepted) judge.reasons = reasons;
  return stages;
}

}  // namespace

void PlaceVerdict(const records::Verdict& verdict, bool accepted, std::vector<RunStage>& stages) {
  std::vector<RunStage> of_verdict = StagesOfVerdict(verdict, accepted);
  if (stages.empty()) {
    stages = std::move(of_verdict);
    return;
  }
  if (stages.back().passed || stages.back().name != "judge" || of_verdict.back().name != "build")
    return;
  RunStage judge = std::move(stages.back());
  stages.pop_back();
  if (stages.empty() || stages.back().name != "build") {
    stages.emplace_back();
    stages.back().name = "build";
    stages.back().seconds = judge.seconds;
  }
  stages.back().passed = false;
  stages.back().reasons = std::move(judge.reasons);
  stages.back().feedback = std::move(judge.feedback);
}

std::vector<RunCascade> CascadeOf(const std::vector<RunCandidate>& candidates) {
  std::vector<RunCascade> cascade;
  for (const char* name : kOrder) cascade.emplace_back().stage = name;
  for (const RunCandidate& candidate : candidates) {
    for (size_t i = 0; i < candidate.stages.size(); ++i) {
      const RunStage& stage = candidate.stages[i];
      auto row = std::find_if(cascade.begin(), cascade.end(),
                              [&](const RunCascade& one) { return one.stage == stage.name; });
      if (row == cascade.end()) {
        row = cascade.emplace(cascade.end());
        row->stage = stage.name;
      }
      ++row->in;
      row->passed += stage.passed;
      row->seconds += stage.seconds;
      // The candidate was judged although it failed at this stage.
      if (stage.passed || i + 1 == candidate.stages.size() || !candidate.judged) continue;
      ++row->judged_anyway;
      row->good += candidate.accepted();
    }
  }
  const auto unused = [](const RunCascade& row) { return row.in == 0; };
  cascade.erase(std::remove_if(cascade.begin(), cascade.end(), unused), cascade.end());
  for (size_t i = 0; i < cascade.size(); ++i) {
    if (const auto after = SecondsAfter(cascade, i)) {
      cascade[i].saved_seconds =
          static_cast<double>(cascade[i].fell() - cascade[i].judged_anyway) * *after;
    }
  }
  return cascade;
}

}  // namespace cupel::report
