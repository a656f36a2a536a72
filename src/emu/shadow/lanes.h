// The addresses of the lanes of a load or store.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/spaces.h"
#include "emu/core/warp.h"
#include "emu/shadow/place.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {

struct LanePlaces {
  uint64_t address[kLanes] = {};  // in its own space
  MemorySpace space[kLanes] = {};
};

inline void FindPlaces(const Warp& warp, const Op* op, const AccessShape& shape,
                       LanePlaces& lanes) {
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    lanes.address[i] = LaneAddress(warp, op, shape.space, i, op->imm);
    lanes.space[i] = SpaceOfAddress(shape.space, &lanes.address[i]);
  }
}

/// Call before a store or an atomic operation. If the address depends on a float, exact arithmetic
/// might use another address, so all places are in doubt.
inline void DoubtPlaces(const WarpShadow& ws, const Warp& warp, const Op* op,
                        const AccessShape& shape) {
  if (!IsLive(ws, op->src[0])) return;
  const bool wide = HasWideAddresses(shape.space);
  uint32_t flags[kLanes] = {};
  GatherFlags(ws, warp, op->src[0], wide ? SlotKind::kDouble : SlotKind::kWord, flags);
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    if (flags[__builtin_ctz(rest)] != 0) return ws.memory->DoubtPlaces();
  }
}

}  // namespace cupel::emu
