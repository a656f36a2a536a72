// What host code leaves undefined in the parameters of its kernels and in what it copies to the
// device: a structure with room for more tensors than there are, or padding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace cupel::record {

/// Bytes that host code gave to a node of a plan, or to the work of a call with that number.
struct UndefinedRange {
  uint32_t node = 0, at = 0, bytes = 0;
  auto operator<=>(const UndefinedRange&) const = default;
};
/// In order. Ranges of a node neither overlap nor touch.
using Undefined = std::vector<UndefinedRange>;

/// The bytes that are 0xfe in `pattern` and 0 in `zeros`, the plans of the same call by an image's
/// pattern_object and zero_object. Whatever else depends on undefined variables is another
/// difference of these plans.
Undefined FindUndefined(const plan::Plan& pattern, const plan::Plan& zeros);

/// The bytes that are 0 in `filled`, a plan whose undefined bytes are marked, and are something
/// else in `usual`, the plan of the same call by the usual object. GCC clears the padding of all
/// variables that it fills.
Undefined FindPadding(const plan::Plan& usual, const plan::Plan& filled);

/// Adds ranges, which may overlap those that are there.
void Join(const Undefined& more, Undefined& into);

/// Marks bytes of the plan as undefined, too (plan::UndefinedBytes).
void MarkUndefined(const Undefined& undefined, plan::Plan& plan);

/// All that is marked in the plan, as numbers of the call's own work: without what is prepared.
Undefined UndefinedInCall(const plan::Plan& plan);

/// Takes the bytes of node number `node` out of `bytes`, which become 0.
std::vector<plan::UndefinedBytes> TakeUndefined(const Undefined& undefined, uint32_t node,
                                                std::string& bytes);

}  // namespace cupel::record
