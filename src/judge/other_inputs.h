// What a verdict says about inputs that the task itself does not draw (docs/judging.md, "Other
// inputs"): which kinds were tried, which were not and why, and what fails outside the task's
// domain.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "judge/compare.h"
#include "records/inputs.h"
#include "task/distribution.h"

namespace cupel::judge {

/// A failure outside the task's domain.
struct Failure {
  bool refused = false;  // host code raised an error
  std::string code, message;
  const records::Comparison* wrong = nullptr;  // the first wrong output, if outputs were compared
};
records::Limit LimitOf(task::Distribution distribution, const Failure& failure);

/// For the terminal, over the settings that passed: the kinds of inputs on which results were
/// correct, and those that were not tried.
std::vector<std::string> OtherInputsTexts(const std::vector<const records::OtherInputs*>& settings);

}  // namespace cupel::judge
