// Negative controls: wrong answers, made from a case, that the judge's own comparison must reject.
// If one of them passes at a setting, that setting cannot distinguish right from wrong
// (docs/judging.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "records/control.h"
#include "task/case.h"

namespace cupel::judge {

/// The controls of one setting, from its first cases.
class Controls {
 public:
  /// Tries all controls that need only one case. Keeps a bounded part of the case's answers.
  void TryFirst(const task::Case& wanted);
  /// Tries the first case's answers instead of this case's, and retries controls that passed. It is
  /// enough if a control fails in one case.
  void TryOther(const task::Case& wanted);

  const std::vector<records::Control>& all() const { return all_; }
  std::vector<records::Control> Take() { return std::move(all_); }

 private:
  void TryOthersAnswers(const task::Case& wanted);

  std::vector<records::Control> all_;
  std::vector<std::vector<std::byte>> answers_;  // of the first case, by output
};

/// "zeros passes at output 0 (0.31 of the limit)" for each control that passes; empty if none does.
std::string PassingText(const std::vector<records::Control>& controls);

}  // namespace cupel::judge
