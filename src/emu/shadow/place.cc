// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow/place.h"

#include <cstddef>
#include <cstring>

#include "emu/core/cluster.h"
#include "emu/core/memory.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/shadow/pieces.h"

namespace cupel::emu {
namespace {

/// Floats of 32 and 64 bits are at multiples of their size.
constexpr int kSizes[] = {2, 4};

const Cell* CellCovering(const WarpShadow& ws, MemorySpace space, int lane, uint64_t start,
                         int granules) {
  const Cell* cell = CellAt(ws, space, lane, start);
  if (cell == nullptr || cell->state == 0) return nullptr;
  return GranulesOf(KindOf(cell->state)) == granules ? cell : nullptr;
}

/// The cell of an input's float32 at a granule, or a piece of it.
Cell InputCell(const WarpShadow& ws, const Warp& warp, uint64_t address, int granules) {
  const uint64_t start = address & ~uint64_t{3};
  const uint64_t bits = BitsInMemory(warp, MemorySpace::kGlobal, 0, start, 4);
  const Cell whole{LeafOf(ws.field, ValueOfBits(DType::kF32, bits)), static_cast<uint32_t>(bits),
                   StateOf(ShadowKind::kSingle)};
  if (start == address && granules >= 2) return whole;
  const auto index = static_cast<int>((address - start) / 2);
  Cell piece = Piece(whole, index);
  piece.bits = TiedBits(ShadowKind::kShort, bits, index);
  return piece;
}

}  // namespace

Cell* SiblingCell(const WarpShadow& ws, uint64_t address) {
  const SharedPlace place = FindShared(*ws.block, address);
  if (place.block == nullptr) return nullptr;
  return place.block->shadow->warp(0).shared + place.offset / 2;
}

uint64_t BitsInMemory(const Warp& warp, MemorySpace space, int lane, uint64_t address, int bytes) {
  const auto count = static_cast<uint64_t>(bytes);
  uint64_t bits = 0;
  if (space == MemorySpace::kShared) {
    const SharedPlace place = FindShared(*warp.block, address);
    if (place.block != nullptr && place.offset + count <= warp.shared_bytes) {
      std::memcpy(&bits, place.block->memory + place.offset, count);
    }
  } else if (space == MemorySpace::kGlobal) {
    const GlobalMemory& memory = *warp.worker->launch->memory;
    if (memory.Contains(address, count)) std::memcpy(&bits, memory.Host(address), count);
  } else if (space == MemorySpace::kLocal && address + count <= warp.local_bytes) {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t at = address + i;
      const uint64_t host = (at / 4 * kLanes + static_cast<uint64_t>(lane)) * 4 + at % 4;
      bits |= std::to_integer<uint64_t>(warp.local[host]) << (8 * i);
    }
  }
  return bits;
}

Cell LoadCell(const WarpShadow& ws, const Warp& warp, MemorySpace space, int lane, uint64_t address,
              int granules) {
  const Cell* own = CellAt(ws, space, lane, address);
  if (own != nullptr && own->state != 0 && GranulesOf(KindOf(own->state)) <= granules) return *own;
  for (const int size : kSizes) {
    const uint64_t start = address & ~(2 * static_cast<uint64_t>(size) - 1);
    if (start == address && size <= granules) continue;
    const Cell* whole = CellCovering(ws, space, lane, start, size);
    if (whole == nullptr) continue;
    // The float is valid only if all of its bits are unchanged.
    const uint64_t bits = BitsInMemory(warp, space, lane, start, 2 * size);
    if (whole->bits != TiedBits(KindOf(whole->state), bits, 0)) return {};
    const auto index = static_cast<int>((address - start) / 2);
    Cell piece = Piece(*whole, index);
    piece.bits = TiedBits(ShadowKind::kShort, bits, index);
    return piece;
  }
  if (space == MemorySpace::kGlobal && ws.memory->AreFloats(address)) {
    return InputCell(ws, warp, address, granules);
  }
  return {};
}

void BreakCells(WarpShadow& ws, const Warp& warp, MemorySpace space, int lane, uint64_t address,
                int granules) {
  const uint64_t end = address + 2 * static_cast<uint64_t>(granules);
  for (const int size : kSizes) {
    if (granules >= size) continue;
    const uint64_t start = address & ~(2 * static_cast<uint64_t>(size) - 1);
    const Cell* whole = CellCovering(ws, space, lane, start, size);
    if (whole == nullptr) continue;
    const uint32_t flags =
        (whole->state & kFlags) | (IsFloatKind(KindOf(whole->state)) ? kReset : 0);
    for (uint64_t at = start; at < start + 2 * static_cast<uint64_t>(size); at += 2) {
      if (at >= address && at < end) continue;
      const uint64_t bits = BitsInMemory(warp, space, lane, at, 2);
      *CellForStore(ws, space, lane, at) = {0, TiedBits(ShadowKind::kShort, bits, 0),
                                            Stamped(ws, StateOf(ShadowKind::kShort, flags))};
    }
  }
}

}  // namespace cupel::emu
