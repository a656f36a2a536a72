// Samples several samplers alternately until their medians are known well enough.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "assay/sampler.h"
#include "records/bench.h"

namespace cupel::assay {

struct MeasureOptions {
  int least = 40, most = 400;  // rounds: one cold replay of each sampler
  double narrow = 0.005;       // half of the 95 % intervals of medians and ratios, relative to them
  double seconds = 8;          // the rounds end after this time, even if the intervals are wide
  int others = 21;             // warm and host samples of each sampler
};

struct Measured {
  std::vector<records::Samples> samples;  // of each sampler
  double overhead_us = 0;  // of the clock; already subtracted from cold and warm samples
};

/// The clock's resolution: the difference between two readings of one event.
inline constexpr double kClockResolutionUs = 0.032;
/// The difference between two copies of the same kernel on an H200, independent of their time:
/// their code is at different addresses and comes from memory each time.
inline constexpr double kPlacementUs = 0.05;

/// Takes rounds in ABBA order: forwards, then backwards, on the same inputs; then on the next
/// inputs. `overhead` measures the clock's own overhead once per round, so that both are from the
/// same moment. Ends early if a sampler has a problem. Errors:
/// those of samplers; kCancelled.
Result<Measured> Measure(std::span<Sampler* const> samplers,
                         const std::function<Result<double>()>& overhead, int sets,
                         const MeasureOptions& options,
                         const std::function<void(int rounds)>& progress,
                         const std::stop_token& stop = {});

}  // namespace cupel::assay
