// The part of JSON Schema that describes the arguments of our tools: type, enum, properties,
// required, additionalProperties, items, minItems, maxItems, minLength, maxLength, minimum,
// maximum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace cupel::serve {

/// Checks that `value` matches `schema`, which must be one of ours. The error names the member and
/// the expected value, so that a language model can try again. `where` names the value.
Status CheckAgainst(const Json& schema, const Json& value, std::string_view where);

}  // namespace cupel::serve
