// Compares one output with its truth under the calibrated tolerance (docs/judging.md): accept if
// RMS error <= 16 E and largest error <= 128 E, each plus the absolute floor of the dtype.
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

/// The absolute error that is always allowed: the smallest normal number, because kernels may flush
/// denormals. For float16, which GPUs never flush and whose smallest normal is a visible 6e-5, it
/// is the smallest denormal. For float8 it is that of float16 (scan.h, JudgedAs).
double AbsoluteFloor(DType dtype);

struct WrongElement {
  std::vector<int64_t> index;
  double got = 0, wanted = 0;
};

struct Comparison {
  bool ok = false;
  /// "wrong_shape", "wrong_dtype", "not_finite", "wrong_result"; "broken_case" if the case itself
  /// is invalid (the fault of cupel or the task); empty if ok.
  std::string code;
  std::string message;  // one sentence: what is wrong, and the probable cause if a pattern is clear
  std::string pattern;  // stable name of that pattern ("all_zero", "tail"), empty if none is clear
  double rms_error = 0, max_error = 0;  // absolute (Rule::ErrorOf), over finite pairs
  double rms_limit = 0, max_limit = 0;  // 16 E and 128 E, plus the floor
  int64_t wrong_count = 0, count = 0;
  std::vector<WrongElement> first_wrong;  // at most 5, in row-major order

  /// The larger of error / limit over both limits; 0 for exact outputs that are correct.
  double Severity() const;
};

/// `got` must be contiguous and as large as its shape says. Uses all cores for large outputs; the
/// result does not depend on their number.
Comparison Compare(const task::Tensor& got, const task::Output& want);

/// Like Compare, but only for the elements that sampled blocks wrote; `count` counts those. The
/// message does not explain the cause, because the pattern of a few blocks misleads. An output to
/// which nothing was written is wrong.
Comparison CompareWritten(const engine::OutputTensor& got, const task::Output& want);

/// Like Compare, but without a message, a pattern or the first wrong elements.
Comparison CompareQuietly(const task::Tensor& got, const task::Output& want);

/// Like Compare, on `threads` threads.
Comparison CompareOn(size_t threads, const task::Tensor& got, const task::Output& want);

}  // namespace cupel::judge
