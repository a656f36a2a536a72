// The candidates of a run with their outcomes and reasons.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"
#include "report/run/run.h"

namespace cupel::report {

/// Fills in the candidates by id, the best and its lineage. Also fills in evidence and profile, so
/// that the large verdicts are only read once.
Status ReadCandidates(const archive::Archive& archive, Run& run);

}  // namespace cupel::report
