// Finds the lanes that take part in a warp-level instruction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emu/check/report.h"
#include "emu/check/sync_notes.h"
#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/sync/groups.h"

namespace cupel::emu {

/// The lanes that take part, or 0 if the group has to wait first.
inline uint32_t Participants(Warp& warp, const Op* op, int mask_source) {
  const auto* members = At<const uint32_t>(warp, op->src[mask_source]);
  const uint32_t named = members[__builtin_ctz(warp.active)];
  if ((named & ~warp.active & warp.live) != 0 && !CollectLanes(warp, op, named)) return 0;
  if ((warp.active & ~named) != 0 || (named & ~warp.active & warp.live) != 0) {
    ReportShuffle(warp, op, named, 0);
  }
  if (warp.checking) NoteWarpSync(warp, warp.active & named);
  return warp.active;
}

/// Parts of a warp may execute one instruction together, each with its own mask (like tiles of
/// cooperative groups). Each part is executed separately.
template <Handler One, int Source>
const Op* ByMask(Warp& warp, const Op* op) {
  const auto* members = At<const uint32_t>(warp, op->src[Source]);
  const uint32_t active = warp.active;
  auto with_mask_of = [&](int lane) {
    uint32_t same = 0;
    for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
      const int i = __builtin_ctz(rest);
      same |= uint32_t{members[i] == members[lane]} << i;
    }
    return same;
  };
  const uint32_t named = members[__builtin_ctz(active)];
  uint32_t differs = 0;
  if (active == kFullMask) {
    for (int i = 0; i < kLanes; ++i) differs |= members[i] ^ named;
    if (differs == 0) return One(warp, op);
  }
  const uint32_t first = with_mask_of(__builtin_ctz(active));
  if (first == active) return One(warp, op);
  uint32_t waiting = 0;  // parts with missing lanes
  for (uint32_t rest = active; rest != 0;) {
    const int lane = __builtin_ctz(rest);
    const uint32_t part = with_mask_of(lane);
    if ((members[lane] & ~active & warp.live) != 0) waiting |= part;
    rest &= ~part;
  }
  if (waiting != 0) {
    // Complete parts continue. The others return to this op.
    const uint32_t ready = active & ~waiting;
    return Diverge(warp, op, ready != 0 ? ready : first, op);
  }
  for (uint32_t rest = active; rest != 0;) {
    warp.active = with_mask_of(__builtin_ctz(rest)) & rest;
    rest &= ~warp.active;
    One(warp, op);
  }
  warp.active = active;
  return op + 1;
}

}  // namespace cupel::emu
