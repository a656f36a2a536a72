// Reads and validates filter.py's replies. They are not trusted: task code runs in that process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "oracle/filter.h"

namespace cupel::oracle {

/// Reads the reply to "measure".
Result<MeasureOutcome> ReadMeasures(const Json& reply);

}  // namespace cupel::oracle
