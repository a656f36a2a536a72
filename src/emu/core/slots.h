// Moves the elements of a load or store between packed bytes and the slots of a lane.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

struct LaneValue {
  alignas(16) std::byte bytes[32];
};

/// Copies the lane's slots to packed bytes.
void LoadSlots(const Warp& warp, const Op* op, const AccessShape& shape, int lane,
               LaneValue* value);
/// Copies packed bytes to the lane's slots.
void StoreSlots(const Warp& warp, const Op* op, const AccessShape& shape, int lane,
                const LaneValue& value);
/// The bytes that `lane` stores with `op`, a plain store of AccessShape::bytes() bytes.
void StoredValue(const Warp& warp, const Op* op, int lane, std::byte* bytes);

}  // namespace cupel::emu
