// SPDX-License-Identifier: Apache-2.0
#include "evolve/cascade.h"

#include <set>

namespace cupel::evolve {

CascadeTally TallyOf(const std::vector<archive::Stage>& stages) {
  CascadeTally tally;
  std::set<int64_t> stopped;
  const auto count = [](StageTally& into, const archive::Stage& stage) {
    ++into.seen;
    into.stopped += stage.passed ? 0 : 1;
    into.seconds += stage.seconds;
  };
  for (const archive::Stage& stage : stages) {
    if (stage.name == "review") {
      count(tally.review, stage);
      if (!stage.passed) stopped.insert(stage.candidate);
    } else if (stage.name == "judge") {
      count(tally.judge, stage);
      if (!stopped.contains(stage.candidate)) continue;
      ++tally.audited;
      tally.good_among_audited += stage.passed ? 1 : 0;
    }
  }
  return tally;
}

double ExpectedSaving(const CascadeTally& tally) {
  if (tally.review.seen == 0) return 0;
  const double stopped = static_cast<double>(tally.review.stopped) / tally.review.seen;
  const double good = (1.0 + tally.good_among_audited) / (5.0 + tally.audited);
  return stopped * (1 - 2 * good) * tally.judge.each();
}

bool ReviewPays(const CascadeTally& tally, int least) {
  return tally.review.seen < least || ExpectedSaving(tally) > tally.review.each();
}

}  // namespace cupel::evolve
