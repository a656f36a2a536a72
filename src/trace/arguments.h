// Arguments in the JSON of the process that runs Python programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "record/protocol.h"

namespace cupel::trace {

/// A list of {"kind", …}; tensors have "dtype", "shape", "strides", "offset", "bytes" and, if they
/// have one element, "value". Errors: kInvalidArgument.
Json WriteArguments(const std::vector<record::Argument>& arguments);
/// The same from a program, where a tensor is a plan's view of a storage of "bytes".
Result<std::vector<record::Argument>> ReadArguments(const Json& json);

}  // namespace cupel::trace
