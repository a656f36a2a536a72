// Accesses of instructions that are no plain loads and stores: where their lanes go, with the
// checks and counts of ordinary accesses. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emu/op.h"

namespace cupel::emu {

/// Adds a lane's access to shared or global memory; false after a finding.
inline bool AddShared(Warp& warp, const Op* op, MemorySpace space, int lane, uint64_t address,
                      uint32_t bytes, bool store, LaneAddresses* lanes) {
  if (!lanes->Add(warp, op, space, lane, address, bytes, store)) return false;
  if (lanes->host[lane] != nullptr) return true;
  Fault(warp, op, "illegal_instruction", "This instruction cannot access local memory.", lane);
  return false;
}

/// Counts and checks what was added; false after a finding. Op::aux is an AccessShape.
inline bool ObserveCopies(Warp& warp, const Op* op, const LaneAddresses& lanes, uint32_t bytes,
                          bool store) {
  if (warp.counting) {
    if (lanes.global != 0) CountGlobal(warp, op, lanes.global, lanes.global_offsets);
    if (lanes.shared != 0) CountShared(warp, op, lanes.shared, bytes, lanes.offsets);
  }
  AccessKind kind;
  kind.store = store;
  return lanes.Observe(warp, op, kind, bytes);
}

}  // namespace cupel::emu
