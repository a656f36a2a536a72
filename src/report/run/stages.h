// The stages of a candidate, from the archive's records and its verdict.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"
#include "records/verdict.h"
#include "report/run/run.h"

namespace cupel::report {

RunStage StageFrom(const archive::Stage& stage);

/// Completes the stages of a candidate from its verdict. If no stages were recorded, adds
/// building and judging. If the judge rejected a kernel that did not compile, the stage that failed
/// becomes the build.
void PlaceVerdict(const records::Verdict& verdict, bool accepted, std::vector<RunStage>& stages);

/// The first 20.
std::vector<RunReason> ReasonsFrom(const std::vector<records::Reason>& list);

/// All stages that any candidate went through, in order.
std::vector<RunCascade> CascadeOf(const std::vector<RunCandidate>& candidates);

}  // namespace cupel::report
