// Plans as JSON ("cupel.plan/1", docs/formats/plan.md) and their validation. A plan comes from a
// process that ran hostile code, so the reader trusts no part of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/result.h"
#include "plan/plan.h"

namespace cupel::plan {

Json ToJson(const Plan& plan);
Json ToJson(const Number& number);

/// Parses and validates a plan: every index, size and offset must be in range, and counts within
/// their limits. `what` names the text in messages.
Result<Plan> FromJson(const Json& json, std::string_view what);

/// Checks a plan's internal consistency (see FromJson). The error names the node and field.
Status Validate(const Plan& plan);

/// Readable text, one line per node: "launch linear_kernel grid 8 block 256 shared 0".
std::string Describe(const Plan& plan);

}  // namespace cupel::plan
