// Compares the shadows of an output with its truth (docs/judging.md). This shows what a kernel
// computes apart from its rounding, even if the tolerance is loose.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "task/case.h"

namespace cupel::judge {

/// Shadow and truth agree if they are this close, as a share of the output's scale. This is the
/// error that constants rounded to float32 may cause.
inline constexpr double kShadowShare = 0x1p-20;

struct ShadowComparison {
  bool judged = false;         // a floating-point output with shadows
  int64_t count = 0;           // elements
  int64_t equal = 0;           // agree, without a reset or a doubt
  int64_t disagree = 0;        // disagree, and neither a reset nor a doubt explains it
  int64_t reset = 0;           // not established: computed from a reset value
  int64_t doubtful = 0;        // not established: depends on a doubtful decision, or not a number
  double scale = 0;            // RMS of the truth
  double limit = 0;            // absolute
  double largest = 0;          // |shadow - truth| over elements without a reset
  std::vector<int64_t> first;  // index of the first element that disagrees
  double first_shadow = 0, first_truth = 0;
  std::vector<records::ShadowCause> causes;  // of resets and doubts
  /// The kernel's own rounding: RMS and largest |value - shadow|, as a share of the scale.
  double own_rms = 0, own_max = 0;
  /// True if `own_rms` is far above what float32 arithmetic causes in this task.
  bool reduced_precision = false;

  /// 16-bit outputs: the errors of the values that were reset, if rounding does not explain them.
  std::string unexplained;

  bool ok() const { return disagree == 0; }
  bool established() const { return judged && equal == count; }
};

/// `got` must come from a run with shadows. Integer outputs are not judged.
ShadowComparison CompareShadows(const engine::OutputTensor& got, const task::Output& want);

/// The output's bytes with float32 and float64 elements replaced by their shadows where these agree
/// with the truth, also if an element was reset or is in doubt: what agrees is not judged by the
/// value, whose rounding may be larger. Everything else keeps its value. `got` must have the
/// output's shape and dtype.
std::vector<std::byte> BytesWithAgreeingShadows(const engine::OutputTensor& got,
                                                const task::Output& want);

/// The message for a rejection.
std::string DisagreementText(const ShadowComparison& comparison);

/// Compares two runs under different schedules. Returns the first element whose shadow differs by
/// more than rounding (or, for integers, whose bits differ), or -1. Ignores doubtful elements.
int64_t FirstOrderDependence(const engine::OutputTensor& a, const engine::OutputTensor& b);

}  // namespace cupel::judge
