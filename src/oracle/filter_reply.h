// Reads what filter.py says and believes nothing: the task's code runs in its process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "oracle/filter.h"

namespace cupel::oracle {

/// The reply to measure.
Result<MeasureOutcome> ReadMeasures(const Json& reply);

}  // namespace cupel::oracle
