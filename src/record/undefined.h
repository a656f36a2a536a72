// What host code leaves undefined in the parameters of its kernels: a structure with room for more
// tensors than there are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace cupel::record {

/// Bytes of a launch's parameters. `launch`: how many launches the same call requests before it.
struct UndefinedBytes {
  uint32_t launch = 0;
  plan::ByteRange range;
  bool operator==(const UndefinedBytes&) const = default;
};
using Undefined = std::vector<UndefinedBytes>;

/// The bytes that are 0xfe in `pattern` and 0 in `zeros`, the plans of the same call by an image's
/// pattern_object and zero_object. Whatever else depends on undefined variables is another
/// difference of these plans.
Undefined FindUndefined(const plan::Plan& pattern, const plan::Plan& zeros);

void SetToZero(const plan::ByteRange& range, std::string& bytes);

/// Lists them in Launch::undefined, and sets them to 0.
void MarkUndefined(const Undefined& undefined, plan::Plan& plan);

}  // namespace cupel::record
