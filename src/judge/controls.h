// Negative controls: wrong answers, made from a case, that the judge's own comparison must refuse.
// A setting at which one of them passes cannot tell right from wrong (docs/judging.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "task/case.h"

namespace cupel::judge {

/// One wrong answer at one output, the other outputs being right.
struct Control {
  std::string name;      // stable: "zeros", "tail_rows_zero" …
  size_t output = 0;     // position in the result
  std::string skipped;   // why it says nothing here; empty: it was tried
  double distance = 0;   // its error as a multiple of what is allowed
  int64_t elements = 0;  // compared; of large outputs the last ones alone

  /// The judge takes this wrong answer for a right one.
  bool Passes() const { return skipped.empty() && !(distance > 1); }
};

/// The controls of one setting, from its first cases.
class Controls {
 public:
  /// All that one case is enough for. Keeps a bounded piece of its answers.
  void TryFirst(const task::Case& wanted);
  /// The first case's answers in place of this one's, and again what has passed: one case that
  /// tells a wrong answer is enough.
  void TryOther(const task::Case& wanted);

  const std::vector<Control>& all() const { return all_; }
  std::vector<Control> Take() { return std::move(all_); }

 private:
  void TryOthersAnswers(const task::Case& wanted);

  std::vector<Control> all_;
  std::vector<std::vector<std::byte>> answers_;  // of the first case, by output
};

/// "zeros passes at output 0 (0.31 of what is allowed)" for each that passes; empty: none does.
std::string PassingText(const std::vector<Control>& controls);

Json ToJson(const Control& control);

}  // namespace cupel::judge
