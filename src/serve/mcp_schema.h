// The part of JSON Schema that the arguments of our tools are described with: type, enum,
// properties, required, additionalProperties, items, minItems, maxItems, minLength, maxLength,
// minimum, maximum. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace cupel::serve {

/// Whether `value` is what `schema`, one of ours, asks for. The error says which member is not and
/// what it must be, for a language model that is to try again. `where` names the value.
Status CheckAgainst(const Json& schema, const Json& value, std::string_view where);

}  // namespace cupel::serve
