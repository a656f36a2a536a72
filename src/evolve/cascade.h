// Decides whether models should review kernels before these are judged. Compares what reviews cost
// (seconds, and dollars or tokens) with the judging that they save. Counts the run's own
// candidates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"

namespace cupel::evolve {

/// One stage, summed over the candidates that reached it.
struct StageTally {
  int seen = 0, stopped = 0;
  double seconds = 0;
  double each() const { return seen > 0 ? seconds / seen : 0; }
};

struct CascadeTally {
  StageTally review, judge;  // of proposals that compile; the seconds of screens count as judging
  double review_usd = 0;
  int64_t review_tokens = 0;
  /// Some candidates that reviewers stopped were judged nevertheless.
  int audited = 0, good_among_audited = 0;
};

/// Errors: the archive's stages are damaged.
Result<CascadeTally> TallyOf(const std::vector<archive::Stage>& stages);

/// What a review replaces, and what it costs if that is not known.
struct CascadePrices {
  double usd_per_second = 3.0 / 3600;  // of judging: an hour of an H100
  double usd_per_token = 3e-6;         // of a model whose price is not known
  // Of one review, before there was one.
  double seconds = 20;
  int64_t tokens = 8000;
};

/// Seconds of judging that one review is expected to save: the share of kernels that reviews stop,
/// times the seconds that judging one takes. Correct kernels that are stopped count as a loss;
/// their share is estimated from the audits with a Beta(1, 4) prior. Before there are reviews, they
/// are expected to find most of the kernels that the judge rejects.
double ExpectedSaving(const CascadeTally& tally);

/// Whether a review is expected to save more time and more money than it takes. False before a few
/// candidates were judged.
bool ReviewPays(const CascadeTally& tally, const CascadePrices& prices = {});

}  // namespace cupel::evolve
