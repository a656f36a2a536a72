// Shadows through stores, lane by lane. The op itself checks the access.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <limits>
#include <mutex>

#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/shadow/lanes.h"
#include "emu/shadow/pieces.h"
#include "emu/shadow/place.h"
#include "emu/shadow/shadow.h"
#include "emu/shadow/small.h"

namespace cupel::emu {
namespace {

/// The cell of a granule of which one byte was stored, if that or the other one is a float of 8
/// bits with a known exact value. `cells` are those of the stored register.
bool SmallCell(const WarpShadow& ws, const Warp& warp, MemorySpace space, int lane,
               uint64_t address, const Cell (&cells)[4], Cell* made) {
  constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
  SmallPair pair{kUnknown, kUnknown};
  const uint64_t even = address & ~uint64_t{1}, other = address ^ 1u;
  const uint64_t bits = BitsInMemory(warp, space, lane, even, 2);
  const Cell* before = CellAt(ws, space, lane, even);
  uint32_t flags = 0;
  bool known = false;
  if (before != nullptr && before->state != 0) {
    flags |= before->state & kFlags;
    known = KindOf(before->state) == ShadowKind::kPair &&
            IsTiedToByte(*before, other, bits >> (8 * (other & 1u)));
    if (known) {
      SmallPair old = UnpackPair(before->exact);
      HalfAt(pair, other) = HalfAt(old, other);
    }
  }
  if (KindOf(cells[0].state) == ShadowKind::kPair) {
    HalfAt(pair, address) = UnpackPair(cells[0].exact).low;
    known = true;
  }
  if (!known) return false;
  for (const Cell& cell : cells) flags |= cell.state & kFlags;
  *made = {PackPair(pair), TiedBits(ShadowKind::kPair, bits, 0), StateOf(ShadowKind::kPair, flags)};
  return true;
}

/// The cell of a granule after a store of one byte. It is not a float if it was one before, or if
/// the byte is part of one, except for floats of 8 bits.
Cell ByteCell(const WarpShadow& ws, const Warp& warp, MemorySpace space, int lane, uint64_t place,
              int32_t slot) {
  Cell cells[4], small;
  ReadCells(ws, warp, slot, false, lane, cells);
  if (SmallCell(ws, warp, space, lane, place, cells, &small)) return small;
  const uint64_t address = place & ~uint64_t{1};
  uint32_t flags = 0;
  auto note = [&](const Cell& cell) {
    flags |= (cell.state & kFlags) | (IsFloatKind(KindOf(cell.state)) ? kReset : 0);
  };
  for (const Cell& cell : cells) note(cell);
  for (const uint64_t align : {2u, 4u, 8u}) {
    const Cell* cell = CellAt(ws, space, lane, address & ~(align - 1));
    const auto covered =
        static_cast<uint64_t>(cell == nullptr ? 0 : GranulesOf(KindOf(cell->state)));
    if (cell != nullptr && (address & (align - 1)) < 2 * covered) note(*cell);
  }
  if (flags == 0) return {};
  const uint64_t bits = BitsInMemory(warp, space, lane, address, 2);
  return {0, TiedBits(ShadowKind::kShort, bits, 0), StateOf(ShadowKind::kShort, flags)};
}

/// Whether an input's float that is stored unchanged needs a cell that identifies it as a float. It
/// does if the kernel loads integers.
bool KeepsInputs(const WarpShadow& ws, MemorySpace space) {
  if (IsShared(space)) return ws.code->shared_integers;
  if (space == MemorySpace::kLocal) return ws.code->local_integers;
  const bool elsewhere = ws.code->shared_integers || ws.code->local_integers;
  return ws.code->global_integers || (space == MemorySpace::kGeneric && elsewhere);
}

void StoreElement(WarpShadow& ws, const Warp& warp, const Op* op, const AccessShape& shape,
                  const LanePlaces& lanes, uint32_t element) {
  const uint32_t bytes = shape.element_bytes;
  const int granules = bytes == 8 ? 4 : (bytes == 4 ? 2 : 1);
  const int32_t slot = SlotOf(op, element);
  const bool own = KeepsInputs(ws, shape.space) && IsRaw(ws, slot);
  const bool live = own || IsLive(ws, slot) || ((ws.reset | ws.branch) & warp.active) != 0;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const uint64_t place = lanes.address[i] + element * bytes;
    const uint64_t address = place & ~uint64_t{1};
    if (lanes.space[i] == MemorySpace::kGlobal && !live && !ws.memory->Touched(address)) continue;
    std::unique_lock<std::mutex> lock;
    if (bytes == 1 && lanes.space[i] == MemorySpace::kGlobal) {
      lock = std::unique_lock(ws.memory->ByteMutex(address));
    }
    Cell cells[4] = {};
    const uint64_t value = SlotBits(warp, slot, bytes == 8, i);
    if (live && bytes > 1) {
      ReadCells(ws, warp, slot, bytes == 8, i, cells);
      for (int g = 0; g < granules; ++g) {
        if (GranulesOf(KindOf(cells[g].state)) > granules - g) {
          cells[g] = Piece(cells[g], 0);
          cells[g].bits = TiedBits(ShadowKind::kShort, value, g);
        }
      }
    } else if (bytes == 1) {
      cells[0] = ByteCell(ws, warp, lanes.space[i], i, place, slot);
    }
    if (live) FlagHistory(ws, i, value, granules, cells);
    if (bytes == 1 && cells[0].state != 0) {
      const uint64_t both = BitsInMemory(warp, lanes.space[i], i, address, 2);
      cells[0].bits = TiedBits(ShadowKind::kShort, both, 0);
    }
    for (Cell& cell : cells) cell.state = Stamped(ws, cell.state);
    BreakCells(ws, warp, lanes.space[i], i, address, granules);
    if (lanes.space[i] == MemorySpace::kGlobal) ws.memory->Touch(address, bytes);
    for (int g = 0; g < granules; ++g) {
      Cell* cell = CellForStore(ws, lanes.space[i], i, address + 2 * static_cast<uint64_t>(g));
      if (cell != nullptr) *cell = cells[g];
    }
  }
}

template <bool IsMasked>
const Op* StoreThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const AccessShape shape = AccessShape::Unpack(op->aux);
  LanePlaces lanes;
  FindPlaces(warp, op, shape, lanes);
  DoubtPlaces(ws, warp, op, shape);
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr) return nullptr;
  for (uint32_t element = 0; element < shape.elements; ++element) {
    StoreElement(ws, warp, op, shape, lanes, element);
  }
  return next;
}

}  // namespace

Thunks StoreThunks() { return {&StoreThunk<false>, &StoreThunk<true>}; }

}  // namespace cupel::emu
