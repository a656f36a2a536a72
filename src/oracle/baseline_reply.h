// Reads what baseline.py says and believes nothing: the task's code runs in its process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "oracle/baseline.h"

namespace cupel::oracle {

/// Who answers, in messages.
inline constexpr char kBaseline[] = "baseline.py";

/// The reply to prepare, but for `name` and `kind`; of at most `seeds` sets.
Result<BaselineInfo> ReadBaselineInfo(const Json& reply, size_t seeds);

/// The reply to take: `count` times in microseconds.
Result<std::vector<double>> ReadBaselineSamples(const Json& reply, int count);

}  // namespace cupel::oracle
