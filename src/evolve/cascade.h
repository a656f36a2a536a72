// Whether reading a kernel first is worth it: what reviewers took and caught so far against what
// the judge takes. Counted over the run's own candidates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"

namespace cupel::evolve {

/// One stage of the way, over the candidates that came to it.
struct StageTally {
  int seen = 0, fell = 0;
  double seconds = 0;
  double each() const { return seen > 0 ? seconds / seen : 0; }
};

struct CascadeTally {
  StageTally review, judge;
  /// Of those that reviewers stopped, some were judged all the same.
  int audited = 0, good_among_audited = 0;
};

CascadeTally TallyOf(const std::vector<archive::Stage>& stages);

/// The judge's seconds that one review is expected to save: the share that it stops times what
/// judging one takes, less those that were right (by a Beta(1, 4) prior and the audits), which are
/// a loss and not a saving.
double ExpectedSaving(const CascadeTally& tally);

/// True while fewer than `least` candidates were reviewed, then when a review is expected to save
/// more than it takes.
bool ReviewPays(const CascadeTally& tally, int least = 8);

}  // namespace cupel::evolve
