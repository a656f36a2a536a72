// Takes samples of several samplers side by side until their medians are known well enough.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "assay/sampler.h"

namespace cupel::assay {

struct MeasureOptions {
  int least = 40, most = 400;  // rounds: one cold replay of each
  double narrow = 0.005;       // half of the 95 % intervals of medians and ratios, relative to them
  double seconds = 8;          // after which the rounds end, however wide the intervals are
  int others = 21;             // warm and host samples of each
};

/// Of one sampler, microseconds; cold[i] of all samplers were taken side by side.
struct Samples {
  std::vector<double> cold, warm, host;
};

struct Measured {
  std::vector<Samples> samples;  // of each sampler
  double overhead_us = 0;        // of the clock, subtracted from cold and warm ones
};

/// The clock's: what two readings of one event differ by.
inline constexpr double kClockResolutionUs = 0.032;
/// What two copies of the same kernel were seen to differ by on an H200, whatever they take: their
/// code lies in different places, and comes from memory each time.
inline constexpr double kPlacementUs = 0.05;

/// Rounds in ABBA order: forwards, then backwards, on the same inputs; then on the next. `nothing`
/// takes what the clock itself takes, once a round, so that both are of the same moment. Ends early
/// when a sampler has a problem.
Result<Measured> Measure(std::span<Sampler* const> samplers,
                         const std::function<Result<double>()>& nothing, int sets,
                         const MeasureOptions& options,
                         const std::function<void(int rounds)>& progress);

}  // namespace cupel::assay
