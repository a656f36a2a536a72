// What one lane's bulk copy moves, from the operands of "@bulk".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/sync/bulk_copy.h"

namespace cupel::emu {

/// The copy of a lane; nothing after an error. A copy without runs moves nothing.
std::optional<BulkCopy> BulkCopyOf(Warp& warp, const Op* op, int lane);
/// The copies that it stands for: with .multicast, one for each block of the mask. Ranks that the
/// cluster does not have are ignored.
std::vector<BulkCopy> TargetsOf(const Warp& warp, const Op* op, const BulkCopy& copy);

}  // namespace cupel::emu
