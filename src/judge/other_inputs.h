// What a verdict says about inputs that the task itself does not draw (docs/judging.md, "Other
// inputs"): which kinds were tried, which were not and why, and what fails outside the task's
// domain.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "judge/compare.h"
#include "task/distribution.h"

namespace cupel::judge {

/// A case on which a setting was judged: enough to draw it again.
struct UsedCase {
  std::string kind = "usual";
  uint64_t seed = 0;
  std::string at;  // sizes that differ from the setting's own, in words; else empty
};

/// Something that the kernel cannot do and the task does not require.
struct Limit {
  std::string kind;     // of the inputs
  std::string code;     // like Reason::code
  std::string message;  // "refuses non-contiguous tensors"
  std::string detail;   // what was observed
};

/// Results for one setting.
struct OtherInputs {
  struct NotTried {
    std::string kind, why;
  };
  std::string at;                  // like UsedCase::at
  std::vector<std::string> tried;  // kinds, with any result
  std::vector<NotTried> not_tried;
  std::vector<Limit> limits;
};

Json ToJson(const OtherInputs& inputs);
Json ToJson(const UsedCase& used);

/// A failure outside the task's domain.
struct Failure {
  bool refused = false;  // host code raised an error
  std::string code, message;
  const Comparison* wrong = nullptr;  // the first wrong output, if outputs were compared
};
Limit LimitOf(task::Distribution distribution, const Failure& failure);

/// For the terminal, over the settings that passed: the kinds of inputs on which results were
/// correct, and those that were not tried.
std::vector<std::string> OtherInputsTexts(const std::vector<const OtherInputs*>& settings);

}  // namespace cupel::judge
