// Holds one output against its truth under the calibrated tolerance (docs/judging.md):
//   accept if RMS error <= 16 E and largest error <= 128 E + smallest normal number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "task/case.h"
#include "task/tensor.h"

namespace cupel::judge {

inline constexpr double kRmsFactor = 16;
inline constexpr double kMaxFactor = 128;

struct WrongElement {
  std::vector<int64_t> index;
  double got = 0, wanted = 0;
};

struct Comparison {
  bool ok = false;
  /// "wrong_shape", "wrong_dtype", "not_finite", "wrong_result"; empty when ok.
  std::string code;
  std::string message;    // one sentence: what, and what is probably wrong when the pattern tells
  double rms_error = 0, max_error = 0;     // absolute, over finite pairs
  double rms_limit = 0, max_limit = 0;     // 16 E, 128 E + smallest normal
  int64_t wrong_count = 0, count = 0;
  std::vector<WrongElement> first_wrong;   // at most 5, in row-major order
};

/// `got` is contiguous and as large as its shape says. Uses all cores for large outputs.
Comparison Compare(const task::Tensor& got, const task::Output& want);

}  // namespace cupel::judge
