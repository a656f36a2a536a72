// Holds one output against its truth under the calibrated tolerance (docs/judging.md):
//   accept if RMS error <= 16 E and largest error <= 128 E, each plus the absolute floor of the
//   dtype.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "task/case.h"
#include "task/tensor.h"

namespace cupel::judge {

inline constexpr double kRmsFactor = 16;
inline constexpr double kMaxFactor = 128;

/// What any result may be off by, absolutely: the smallest normal number, because flushed denormals
/// are legal; for float16, which GPUs never flush and whose smallest normal is a visible 6e-5, the
/// smallest denormal.
double AbsoluteFloor(DType dtype);

struct WrongElement {
  std::vector<int64_t> index;
  double got = 0, wanted = 0;
};

struct Comparison {
  bool ok = false;
  /// "wrong_shape", "wrong_dtype", "not_finite", "wrong_result"; "broken_case" when the case itself
  /// cannot be judged against (cupel's or the task's fault); empty when ok.
  std::string code;
  std::string message;  // one sentence: what, and what is probably wrong when the pattern tells
  std::string
      pattern;  // stable name of that pattern ("all_zero", "tail"), empty when none is clear
  double rms_error = 0, max_error = 0;  // absolute, over finite pairs
  double rms_limit = 0, max_limit = 0;  // 16 E and 128 E, plus the floor
  int64_t wrong_count = 0, count = 0;
  std::vector<WrongElement> first_wrong;  // at most 5, in row-major order

  /// The larger of error / limit over both limits; 0 for exact outputs that are right.
  double Severity() const;
};

/// `got` is contiguous and as large as its shape says. Uses all cores for large outputs; the result
/// does not depend on their number.
Comparison Compare(const task::Tensor& got, const task::Output& want);

/// As Compare, of the elements alone that sampled blocks wrote; `count` is theirs. Says what is
/// wrong, not why: the pattern of a few blocks misleads. Nothing written is wrong.
Comparison CompareWritten(const engine::OutputTensor& got, const task::Output& want);

/// As Compare, for whoever asks whether and by how much, not where or why.
Comparison CompareQuietly(const task::Tensor& got, const task::Output& want);

/// As Compare on `threads` threads.
Comparison CompareOn(int threads, const task::Tensor& got, const task::Output& want);

}  // namespace cupel::judge
