// The stages of a candidate, from the archive's records and its verdict.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"
#include "base/json.h"
#include "report/run/run.h"

namespace cupel::report {

RunStage StageFrom(const archive::Stage& stage);

/// Completes the stages of a candidate from its cupel.verdict/1. If no stages were recorded, adds
/// building and judging. If the judge rejected a kernel that did not compile, the stage that failed
/// becomes the build.
void PlaceVerdict(const Json& verdict, bool accepted, std::vector<RunStage>& stages);

/// The first 20 objects with code, message and where.
std::vector<RunReason> ReasonsFrom(const Json& list);

/// All stages that any candidate went through, in order.
std::vector<RunCascade> CascadeOf(const std::vector<RunCandidate>& candidates);

}  // namespace cupel::report
