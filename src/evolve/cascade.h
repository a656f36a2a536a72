// Decides whether reviewing kernels before judging them saves time. Compares the seconds that
// reviews took, and the share of kernels that they stopped, with the seconds that judging takes.
// Counts the run's own candidates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"

namespace cupel::evolve {

/// One stage, summed over the candidates that reached it.
struct StageTally {
  int seen = 0, stopped = 0;
  double seconds = 0;
  double each() const { return seen > 0 ? seconds / seen : 0; }
};

struct CascadeTally {
  StageTally review, judge;
  /// Some candidates that reviewers stopped were judged nevertheless.
  int audited = 0, good_among_audited = 0;
};

CascadeTally TallyOf(const std::vector<archive::Stage>& stages);

/// Seconds of judging that one review is expected to save: the share of kernels that reviews stop,
/// times the seconds that judging one takes. Correct kernels that are stopped count as a loss;
/// their share is estimated from the audits with a Beta(1, 4) prior.
double ExpectedSaving(const CascadeTally& tally);

/// True while fewer than `least` candidates were reviewed. After that, true if a review is expected
/// to save more time than it takes.
bool ReviewPays(const CascadeTally& tally, int least = 8);

}  // namespace cupel::evolve
