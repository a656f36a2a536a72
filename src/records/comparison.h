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

/// How the elements of a 16-bit output were rounded. Empty for other types. A unit is the distance
/// of neighbouring numbers of the type at the truth. The first five and the
/// bias are 0 if PyTorch's own result has more errors than one rounding makes.
struct RoundedResults {
  int64_t count = 0;        // elements whose truth is normal and not a number of the type
  int64_t above = 0;        // of these: greater than the truth
  int64_t outward = 0;      // of these: farther from zero than the truth
  int64_t beyond_half = 0;  // of these: off by more than half a unit, and at most one
  int64_t beyond_one = 0;   // of these: off by more than one unit
  // Of float16, whose subnormal numbers GPUs do not flush:
  int64_t subnormal = 0;  // elements whose truth is subnormal, and several of the smallest numbers
  int64_t flushed = 0;    // of these: zero
  int64_t least_normal = 0;  // elements whose truth is below four times the smallest normal number
  int64_t least_right = 0;   // of these: within a sixteenth of the truth
  double roundoff = 0;       // the unit roundoff of the type
  /// Sum of (value - rounded truth) times truth, over the sum of the squared truth.
  double bias = 0;

  bool is_empty() const { return count == 0 && subnormal == 0; }
  /// Adds the numbers of elements of other results of the same type. Not the bias.
  void AddCounts(const RoundedResults& other);
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
  RoundedResults rounding;

  /// The larger of error / limit over both limits; 0 for exact outputs that are correct.
  double Severity() const;
};

}  // namespace cupel::records
