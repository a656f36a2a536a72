// What the stages of the way made of a candidate, from the archive's records and its verdict.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"
#include "base/json.h"
#include "report/run.h"

namespace cupel::report {

RunStage StageFrom(const archive::Stage& stage);

/// For runs that recorded no stages: building, judging and measuring as a cupel.verdict/1 tells.
std::vector<RunStage> StagesOfVerdict(const Json& verdict, bool accepted);

/// Objects of code, message and where; the first 20.
std::vector<RunReason> ReasonsFrom(const Json& list);

/// Of all stages that any candidate went through, in the order of the way.
std::vector<RunCascade> CascadeOf(const std::vector<RunCandidate>& candidates);

}  // namespace cupel::report
