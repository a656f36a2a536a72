// The comparison of one output with its truth.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cupel::records {

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
  double rms_error = 0, max_error = 0;  // absolute, over finite pairs
  double rms_limit = 0, max_limit = 0;  // what is allowed
  int64_t wrong_count = 0, count = 0;
  std::vector<WrongElement> first_wrong;  // at most 5, in row-major order

  /// The larger of error / limit over both limits; 0 for exact outputs that are correct.
  double Severity() const;
};

}  // namespace cupel::records
