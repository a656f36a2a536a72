// SPDX-License-Identifier: Apache-2.0
#include "evolve/cascade.h"

#include <map>
#include <set>

#include "base/json.h"

namespace cupel::evolve {
namespace {

constexpr const char* kReviewStage = "the record of the review stage";
constexpr int kLeastJudged = 3;    // before anything is expected
constexpr int kLeastReviewed = 8;  // before their own share counts
constexpr double kFound = 0.8;     // share of wrong kernels that reviewers are expected to find

/// Of one candidate.
struct Fate {
  bool builds = true, reviewed = false, passed_review = true;
  bool judged = false, accepted = false;
  double judging_seconds = 0;
};

Status AddCosts(const archive::Stage& stage, CascadeTally& tally) {
  TRY_ASSIGN(const Json detail, ParseJson(stage.detail, kReviewStage));
  if (!detail.contains("opinions")) return {};
  TRY_ASSIGN(const double usd, JsonNumber(detail, "usd", kReviewStage));
  tally.review_usd += usd;
  TRY_ASSIGN(const Json* opinions, JsonArray(detail, "opinions", kReviewStage));
  for (const Json& opinion : *opinions) {
    TRY_ASSIGN(const int64_t input, JsonInt(opinion, "input_tokens", kReviewStage));
    TRY_ASSIGN(const int64_t output, JsonInt(opinion, "output_tokens", kReviewStage));
    tally.review_tokens += input + output;
  }
  return {};
}

/// The share of kernels that a review stops.
double StopShare(const CascadeTally& tally) {
  if (tally.review.seen >= kLeastReviewed) {
    return static_cast<double>(tally.review.stopped) / tally.review.seen;
  }
  if (tally.judge.seen < kLeastJudged) return 0;
  return kFound * tally.judge.stopped / tally.judge.seen;
}

}  // namespace

Result<CascadeTally> TallyOf(const std::vector<archive::Stage>& stages) {
  CascadeTally tally;
  std::map<int64_t, Fate> fates;
  for (const archive::Stage& stage : stages) {
    Fate& fate = fates[stage.candidate];
    if (stage.name == "build") fate.builds = stage.passed;
    if (stage.name == "review") {
      fate.reviewed = true;
      fate.passed_review = stage.passed;
      tally.review.seconds += stage.seconds;
      TRY(AddCosts(stage, tally));
    } else if (stage.name == "screen" || stage.name == "judge") {
      fate.judged = true;
      fate.accepted = stage.passed;
      fate.judging_seconds += stage.seconds;
    }
  }
  for (const auto& [id, fate] : fates) {
    tally.review.seen += fate.reviewed ? 1 : 0;
    tally.review.stopped += fate.passed_review ? 0 : 1;
    if (!fate.judged || !fate.builds) continue;
    ++tally.judge.seen;
    tally.judge.stopped += fate.accepted ? 0 : 1;
    tally.judge.seconds += fate.judging_seconds;
    if (fate.passed_review) continue;
    ++tally.audited;
    tally.good_among_audited += fate.accepted ? 1 : 0;
  }
  return tally;
}

double ExpectedSaving(const CascadeTally& tally) {
  const double good = (1.0 + tally.good_among_audited) / (5.0 + tally.audited);
  return StopShare(tally) * (1 - 2 * good) * tally.judge.each();
}

bool ReviewPays(const CascadeTally& tally, const CascadePrices& prices) {
  if (tally.judge.seen < kLeastJudged) return false;
  const double saving = ExpectedSaving(tally);
  const int seen = tally.review.seen;
  const double seconds = seen > 0 ? tally.review.each() : prices.seconds;
  const double tokens = seen > 0 ? static_cast<double>(tally.review_tokens) / seen
                                 : static_cast<double>(prices.tokens);
  const double known_usd = seen > 0 ? tally.review_usd / seen : 0;
  const double usd = known_usd > 0 ? known_usd : tokens * prices.usd_per_token;
  return saving > seconds && saving * prices.usd_per_second > usd;
}

}  // namespace cupel::evolve
