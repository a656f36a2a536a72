// What a verdict says about inputs that the task does not draw itself (docs/judging.md, "Other
// inputs"): which were tried, which not and why, and what fails outside the task's domain.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "judge/compare.h"
#include "task/distribution.h"

namespace cupel::judge {

/// A case that a setting was judged on: enough to draw it again.
struct UsedCase {
  std::string kind = "usual";
  uint64_t seed = 0;
  std::string at;  // sizes other than the setting's own, in words; else empty
};

/// Something that a kernel cannot do and the task does not ask for.
struct Limit {
  std::string kind;     // of the inputs
  std::string code;     // as of a reason
  std::string message;  // "refuses non-contiguous tensors"
  std::string detail;   // what was seen
};

/// Of one setting.
struct OtherInputs {
  struct NotTried {
    std::string kind, why;
  };
  std::string at;                  // as UsedCase::at
  std::vector<std::string> tried;  // kinds, whatever came out
  std::vector<NotTried> not_tried;
  std::vector<Limit> limits;
};

Json ToJson(const OtherInputs& inputs);
Json ToJson(const UsedCase& used);

/// What went wrong outside the domain.
struct Failure {
  bool refused = false;  // host code raised an error
  std::string code, message;
  const Comparison* wrong = nullptr;  // the first output that is wrong, where one was compared
};
Limit LimitOf(task::Distribution distribution, const Failure& failure);

/// For the terminal, over the settings that passed: which inputs were right, and what was not
/// tried.
std::vector<std::string> OtherInputsTexts(const std::vector<const OtherInputs*>& settings);

}  // namespace cupel::judge
