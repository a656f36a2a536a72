// Finds the shadow of a memory location, for loads, stores and atomics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emu/core/kernel.h"
#include "emu/core/op.h"
#include "emu/core/spaces.h"
#include "emu/core/warp.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {

/// The cell of an address in the shared memory of another block of the cluster.
Cell* SiblingCell(const WarpShadow& ws, uint64_t address);
/// The cell to write for an even address that the op has checked; null if it is not followed.
inline Cell* CellForStore(const WarpShadow& ws, MemorySpace space, int lane, uint64_t address) {
  switch (space) {
    case MemorySpace::kShared:
      if (address >> kRankShift != 0) return SiblingCell(ws, address);
      return ws.shared + address / 2;
    case MemorySpace::kLocal:
      if (ws.local == nullptr) return nullptr;
      return ws.local + (address / 4 * kLanes + static_cast<uint64_t>(lane)) * 2 + address % 4 / 2;
    case MemorySpace::kGlobal:
      return ws.memory->At(address);
    default:
      return nullptr;
  }
}
/// The same for reading; also null if the memory was never written.
inline const Cell* CellAt(const WarpShadow& ws, MemorySpace space, int lane, uint64_t address) {
  if (space == MemorySpace::kGlobal && !ws.memory->Touched(address)) return nullptr;
  return CellForStore(ws, space, lane, address);
}

/// Adds flags to what a lane writes after a decision in doubt.
inline void FlagHistory(const WarpShadow& ws, int lane, uint64_t bits, int granules,
                        Cell (&cells)[4]) {
  const uint32_t flags = HistoryFlags(ws, lane);
  if (flags == 0) return;
  bool any = false;
  for (int g = 0; g < granules; ++g) {
    if (cells[g].state == 0) continue;
    cells[g].state |= flags;
    any = true;
  }
  if (any) return;
  const ShadowKind kind = granules == 4   ? ShadowKind::kLong
                          : granules == 2 ? ShadowKind::kWord
                                          : ShadowKind::kShort;
  cells[0] = {0, TiedBits(kind, bits, 0), StateOf(kind, flags)};
}

/// The content of memory, for addresses that the op has checked.
uint64_t BitsInMemory(const Warp& warp, MemorySpace space, int lane, uint64_t address, int bytes);
/// The cell of the granule at an even address, for an access to it and `granules - 1` more. If a
/// larger float is there, its piece.
Cell LoadCell(const WarpShadow& ws, const Warp& warp, MemorySpace space, int lane, uint64_t address,
              int granules);
/// Call before cells are written at an even address: floats that are partly overwritten are reset.
void BreakCells(WarpShadow& ws, const Warp& warp, MemorySpace space, int lane, uint64_t address,
                int granules);

}  // namespace cupel::emu
