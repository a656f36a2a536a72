// Reads and validates baseline.py's replies. They are not trusted: task code runs in that process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "oracle/baseline.h"

namespace cupel::oracle {

/// The program's name, for messages.
inline constexpr char kBaseline[] = "baseline.py";

/// Reads the reply to "prepare", with at most `seeds` sets. Does not set `name` and `baseline`.
Result<BaselineInfo> ReadBaselineInfo(const Json& reply, size_t seeds);

/// Reads the reply to "take": `count` times in microseconds.
Result<std::vector<double>> ReadBaselineSamples(const Json& reply, int count);

/// Reads the reply to "energy".
Result<BaselineEnergy> ReadBaselineEnergy(const Json& reply);

}  // namespace cupel::oracle
