// Operators as JSON, in plans and in requests to PyTorch (docs/formats/plan.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/json_fwd.h"
#include "base/result.h"
#include "plan/plan.h"

namespace cupel::plan {

/// null, true, "text", {"int": 3}, {"float": 0.5}, {"list": […]} or {"view": {…}}.
Json WriteValue(const OperatorValue& value);

/// {"name", "arguments", "mutated", "results"}; a result that is an argument is null.
Json WriteOperator(const Operator& work);
/// Checks types and sizes, but not whether PyTorch has the operator.
Result<Operator> ReadOperator(const Json& json, std::string_view what);

}  // namespace cupel::plan
