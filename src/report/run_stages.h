// What the stages of the way made of a candidate, from the archive's records and its verdict.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"
#include "base/json.h"
#include "report/run.h"

namespace cupel::report {

RunStage StageFrom(const archive::Stage& stage);

/// What a cupel.verdict/1 adds to the stages of its candidate. Where none were recorded: building
/// and judging. Where the judge is recorded to have refused what did not compile: it fell at build.
void PlaceVerdict(const Json& verdict, bool accepted, std::vector<RunStage>& stages);

/// Objects of code, message and where; the first 20.
std::vector<RunReason> ReasonsFrom(const Json& list);

/// Of all stages that any candidate went through, in the order of the way.
std::vector<RunCascade> CascadeOf(const std::vector<RunCandidate>& candidates);

}  // namespace cupel::report
