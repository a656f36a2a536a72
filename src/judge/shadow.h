// Holds the shadows of an output against its truth (docs/judging.md): what a kernel computes apart
// from its rounding, however loose the tolerance is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "task/case.h"

namespace cupel::judge {

/// Shadow and truth agree when they are this close, as a share of the output's scale: what
/// constants rounded to float32 may cost.
inline constexpr double kShadowShare = 0x1p-20;

struct ShadowComparison {
  bool judged = false;         // a floating-point output with shadows
  int64_t count = 0;           // elements
  int64_t equal = 0;           // agree, with nothing in the way of saying so
  int64_t disagree = 0;        // do not, and nothing upstream excuses it
  int64_t reset = 0;           // not established: a reset lies upstream
  int64_t doubtful = 0;        // not established: a decision in doubt lies upstream, or no number
  double scale = 0;            // RMS of the truth
  double limit = 0;            // absolute
  double largest = 0;          // |shadow - truth| over elements without a reset
  std::vector<int64_t> first;  // index of the first that disagrees
  double first_shadow = 0, first_truth = 0;
  std::vector<engine::ShadowCause> causes;  // of resets and doubts
  /// The kernel's own rounding: RMS and largest |value - shadow|, as a share of the scale.
  double own_rms = 0, own_max = 0;
  /// `own_rms` far above what float32 arithmetic leaves in this task.
  bool reduced_precision = false;

  bool ok() const { return disagree == 0; }
  bool established() const { return judged && equal == count; }
};

/// `got` comes from a run with shadows. Integer outputs are not judged.
ShadowComparison CompareShadows(const engine::OutputTensor& got, const task::Output& want);

/// The sentence for a rejection.
std::string DisagreementText(const ShadowComparison& comparison);

/// Two runs under different schedules: the first element whose shadow, not merely its rounding,
/// differs (or, for integers, whose bits do), or -1. Elements in doubt do not count.
int64_t FirstOrderDependence(const engine::OutputTensor& a, const engine::OutputTensor& b);

}  // namespace cupel::judge
