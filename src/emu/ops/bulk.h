// What one lane's bulk copy moves, from the operands of "@bulk".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/sync/bulk_copy.h"

namespace cupel::emu {

/// The copy of a lane; nothing after an error. A copy without runs moves nothing.
std::optional<BulkCopy> BulkCopyOf(Warp& warp, const Op* op, int lane);

}  // namespace cupel::emu
