// Plans as JSON ("cupel.plan/1", docs/formats/plan.md) and their validation. A plan comes out of a
// process that ran hostile code, so reading one trusts nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/result.h"
#include "plan/plan.h"

namespace cupel::plan {

Json ToJson(const Plan& plan);

/// Parses and validates: every index, size and offset in range, limits on counts. `what` names the
/// text in messages.
Result<Plan> FromJson(const Json& json, std::string_view what);

/// Checks a plan's internal consistency (see FromJson); the error says which node and field.
Status Validate(const Plan& plan);

/// One line a node, for people: "launch linear_kernel grid 8 block 256 shared 0".
std::string Describe(const Plan& plan);

}  // namespace cupel::plan
