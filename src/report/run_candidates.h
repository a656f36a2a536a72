// The candidates of a run with what became of each and why. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "archive/archive.h"
#include "report/run.h"

namespace cupel::report {

/// By id. `best` and `lineage` are those of the run; evidence and profile are made on the way,
/// since verdicts are large and read once.
Status ReadCandidates(const archive::Archive& archive, Run& run);

}  // namespace cupel::report
