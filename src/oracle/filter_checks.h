// What a task's measures mean: robust-kbench's six checks, each by its published absolute threshold
// and by cupel's, which is relative to the output's scale; and cupel's own, by ablation.
// docs/formats/filter.md says what each asks. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "oracle/filter.h"

namespace cupel::oracle {

inline constexpr double kPublishedThreshold = 0.01;  // absolute
inline constexpr double kRelativeThreshold = 0.01;   // of the output's scale

enum class CheckStatus { kOk, kFlagged, kNotApplicable, kNotAsked, kUnfinished };
const char* Name(CheckStatus status);  // "ok", "flagged", "not applicable", …

struct QualityCheck {
  std::string name;  // "range", "deviation", …
  CheckStatus status = CheckStatus::kOk;
  std::optional<bool> published;  // flagged as published? Absent where nothing is published
  std::string measured;           // a few words
  std::string reason;  // of a flag, and of a status that is neither: a sentence to act on
};

/// A language model's judgement of a reference's code.
struct ModelOpinion {
  bool redundant = false, inefficient = false;
  std::string text;  // its reasons
};
/// Asks a model about the text of a task's code. Empty where no model is configured.
using AskModel = std::function<Result<ModelOpinion>(const std::string& code)>;

/// All checks of one setting, in a fixed order. `opinion` is absent when no model was asked.
std::vector<QualityCheck> JudgeQuality(const TaskMeasures& measures,
                                       const std::optional<ModelOpinion>& opinion);

/// The only check of a setting whose reference does not run.
QualityCheck ReferenceFails(const std::string& message);

bool IsFlagged(const std::vector<QualityCheck>& checks);
/// By the published thresholds.
bool IsFlaggedAsPublished(const std::vector<QualityCheck>& checks);

}  // namespace cupel::oracle
