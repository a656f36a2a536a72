// Judges a task's measures with robust-kbench's six checks and cupel's own ablation checks. Each of
// the six uses the published absolute threshold and cupel's threshold, which is relative to the
// output's scale. docs/formats/filter.md describes each.
// SPDX-License-Identifier: Apache-2.0
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
  std::optional<bool> published;  // whether the published check flags it; absent if there is none
  std::string measured;           // a few words
  std::string reason;             // why the check is not kOk, and what to do
};

/// A language model's opinion of a reference's code.
struct ModelOpinion {
  bool redundant = false, inefficient = false;
  std::string text;  // its reasons
};
/// Asks a model about the text of a task's code. Empty if no model is configured.
using AskModel = std::function<Result<ModelOpinion>(const std::string& code)>;

/// Runs all checks of one setting, in a fixed order. `opinion` is absent if no model was asked.
std::vector<QualityCheck> JudgeQuality(const TaskMeasures& measures,
                                       const std::optional<ModelOpinion>& opinion);

/// The only check of a setting whose reference does not run.
QualityCheck ReferenceFails(const std::string& message);

bool IsFlagged(const std::vector<QualityCheck>& checks);
/// Like IsFlagged(), with the published thresholds.
bool IsFlaggedAsPublished(const std::vector<QualityCheck>& checks);

}  // namespace cupel::oracle
