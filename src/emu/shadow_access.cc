// Shadows through loads and stores, lane by lane beside the op itself, which checks the access.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "emu/block.h"
#include "emu/shadow.h"
#include "emu/shadow_pieces.h"
#include "emu/shadow_place.h"

namespace cupel::emu {
namespace {

struct Lanes {
  uint64_t address[kLanes];  // in its own space
  MemorySpace space[kLanes];
};

void FindPlaces(const Warp& warp, const Op* op, const AccessShape& shape, Lanes& lanes) {
  const bool wide = shape.space == MemorySpace::kGlobal || shape.space == MemorySpace::kGeneric;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const uint64_t base =
        wide ? At<const uint64_t>(warp, op->src[0])[i] : At<const uint32_t>(warp, op->src[0])[i];
    lanes.address[i] = base + static_cast<uint64_t>(op->imm);
    if (!wide) lanes.address[i] = static_cast<uint32_t>(lanes.address[i]);
    lanes.space[i] = SpaceOfAddress(shape.space, &lanes.address[i]);
  }
}

int32_t SlotOf(const Op* op, uint32_t element) { return element == 0 ? op->dst : op->src[element]; }

/// Flags of what is loaded through an address that depends on a float.
void AddressFlags(const WarpShadow& ws, const Warp& warp, const Op* op, bool wide,
                  uint32_t* flags) {
  uint32_t found[kLanes] = {};
  GatherFlags(ws, warp, op->src[0], wide ? SlotKind::kDouble : SlotKind::kWord, found);
  for (int i = 0; i < kLanes; ++i) {
    if (found[i] != 0) flags[i] |= kBranch;
  }
}

void JoinLoaded(const Warp& warp, ShadowResult& result) {
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    Cell cells[4];
    for (int g = 0; g < result.planes; ++g) {
      cells[g] = {result.exact[g][i], 0, result.state[g][i]};
    }
    JoinPieces(cells, result.planes);
    for (int g = 0; g < result.planes; ++g) {
      result.exact[g][i] = cells[g].exact;
      result.state[g][i] = cells[g].state;
    }
  }
}

/// Flags that a lane's result has besides its cells' own. False when there are none.
bool AddFlags(uint32_t flags, int granules, int lane, ShadowResult& result) {
  if (flags == 0) return false;
  if (result.state[0][lane] == 0) {
    result.state[0][lane] = StateOf(granules == 4   ? ShadowKind::kLong
                                    : granules == 2 ? ShadowKind::kWord
                                                    : ShadowKind::kShort);
  }
  for (int g = 0; g < granules; ++g) {
    if (result.state[g][lane] != 0) result.state[g][lane] |= flags;
  }
  return true;
}

/// No cell in the eight bytes around an address, so that no float lies across it either.
bool NothingNear(const WarpShadow& ws, MemorySpace space, uint64_t address) {
  if (space != MemorySpace::kShared && space != MemorySpace::kGlobal) return false;
  const Cell* cells = CellAt(ws, space, 0, address & ~uint64_t{7});
  if (cells == nullptr) return true;
  return (cells[0].state | cells[1].state | cells[2].state | cells[3].state) == 0;
}

/// One element of all lanes: cells become the planes of its slot.
bool LoadElement(WarpShadow& ws, const Warp& warp, const AccessShape& shape, const Lanes& lanes,
                 uint32_t element, const uint32_t* flags, bool inputs) {
  ShadowResult& result = *ws.result;
  const uint32_t bytes = shape.element_bytes;
  const int granules = bytes == 8 ? 4 : (bytes == 4 ? 2 : 1);
  result.planes = granules;
  result.raw = 0;
  bool any = false;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const uint64_t address = (lanes.address[i] + element * bytes) & ~uint64_t{1};
    if (!inputs && NothingNear(ws, lanes.space[i], address)) {
      for (int g = 0; g < granules; ++g) result.state[g][i] = 0;
      any |= AddFlags(flags[i], granules, i, result);
      continue;
    }
    const bool lost = lanes.space[i] == MemorySpace::kLocal && ws.local == nullptr;
    for (int g = 0, covered = 0; g < granules; ++g) {
      uint32_t& state = result.state[g][i];
      state = lost ? StateOf(ShadowKind::kShort, kReset) : 0;  // too much to follow
      if (covered-- > 0 || lost) {
        any |= lost;
        continue;
      }
      const Cell cell = LoadCell(ws, warp, lanes.space[i], i,
                                 address + 2 * static_cast<uint64_t>(g), granules - g);
      const ShadowKind kind = KindOf(cell.state);
      if (kind == ShadowKind::kNone) continue;
      state = cell.state;
      result.exact[g][i] = cell.exact;
      if (bytes == 1) state = StateOf(ShadowKind::kShort, (state & kFlags) | kReset);
      covered = GranulesOf(kind) - 1;
      any = true;
    }
    any |= AddFlags(flags[i], granules, i, result);
  }
  return any;
}

/// A cell counts only while memory holds its bits: what was loaded tells.
void DropChanged(WarpShadow& ws, const Warp& warp, const AccessShape& shape, const Lanes& lanes,
                 uint32_t element, int32_t slot) {
  ShadowResult& result = *ws.result;
  bool pieces = false;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const uint64_t bits = SlotBits(warp, slot, shape.element_bytes == 8, i);
    for (int g = 0; g < result.planes; ++g) {
      const ShadowKind kind = KindOf(result.state[g][i]);
      if (kind == ShadowKind::kNone) continue;
      pieces |= IsPiece(kind);
      const uint64_t address = lanes.address[i] + element * shape.element_bytes;
      const Cell* cell =
          CellAt(ws, lanes.space[i], i, (address & ~uint64_t{1}) + 2 * static_cast<uint64_t>(g));
      if (cell == nullptr || cell->state == 0 || KindOf(cell->state) != kind) continue;
      if (cell->bits != TiedBits(kind, bits, g)) result.state[g][i] = 0;
    }
  }
  if (pieces) JoinLoaded(warp, result);
}

/// The common case: each lane loads a float32 whose shadow lies there. False when it is another.
bool LoadSingles(WarpShadow& ws, const Warp& warp, const AccessShape& shape, const Lanes& lanes,
                 uint32_t element, int32_t slot) {
  if (shape.element_bytes != 4 || warp.active != kFullMask) return false;
  ShadowResult& result = *ws.result;
  const auto* words = At<const uint32_t>(warp, slot);
  for (int i = 0; i < kLanes; ++i) {
    const bool here =
        lanes.space[i] == MemorySpace::kShared || lanes.space[i] == MemorySpace::kGlobal;
    const Cell* cell =
        here ? CellAt(ws, lanes.space[i], i, lanes.address[i] + 4 * element) : nullptr;
    if (cell == nullptr || KindOf(cell->state) != ShadowKind::kSingle || cell->bits != words[i]) {
      return false;
    }
    result.exact[0][i] = cell->exact;
    result.state[0][i] = cell->state;
  }
  result.planes = 1;
  result.raw = 0;
  return true;
}

/// True when nothing was ever written near any of the addresses: most loads of inputs.
bool AllUntouched(const WarpShadow& ws, const Warp& warp, const AccessShape& shape,
                  const Lanes& lanes) {
  uint64_t low = ~uint64_t{0}, high = 0;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    if (lanes.space[i] != MemorySpace::kGlobal) return false;
    low = std::min(low, lanes.address[i]);
    high = std::max(high, lanes.address[i]);
  }
  return high - low < ShadowMemory::kPageBytes && !ws.memory->Touched(low) &&
         !ws.memory->Touched(high + shape.bytes() - 1);
}

/// Halves of an input's float32 numbers, several or bytes: a load that is not of one of them.
bool LoadsParts(const WarpShadow& ws, const Warp& warp, const AccessShape& shape,
                const Lanes& lanes) {
  const int i = warp.active == 0 ? 0 : __builtin_ctz(warp.active);
  return shape.element_bytes != 4 && lanes.space[i] == MemorySpace::kGlobal &&
         ws.memory->AreFloats(lanes.address[i]);
}

/// Lanes whose load of integers is of an input's float32 numbers: their bits are looked at.
uint32_t InputFloats(const WarpShadow& ws, const Warp& warp, const AccessShape& shape,
                     const Lanes& lanes) {
  if (shape.element_bytes != 4) return 0;
  uint32_t floats = 0;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const bool are =
        lanes.space[i] == MemorySpace::kGlobal && ws.memory->AreFloats(lanes.address[i]);
    floats |= uint32_t{are} << i;
  }
  return floats;
}

template <bool IsMasked>
const Op* LoadThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const AccessShape shape = AccessShape::Unpack(op->aux);
  Lanes lanes;
  FindPlaces(warp, op, shape, lanes);
  uint32_t flags[kLanes] = {};
  const bool wide = shape.space == MemorySpace::kGlobal || shape.space == MemorySpace::kGeneric;
  const bool live_address = IsLive(ws, op->src[0]);
  if (live_address) AddressFlags(ws, warp, op, wide, flags);
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr) return nullptr;
  const bool slot_is_wide = shape.element_bytes == 8;
  const bool inputs = side.from == Format::kInteger && LoadsParts(ws, warp, shape, lanes);
  const bool nothing = !live_address && !inputs && AllUntouched(ws, warp, shape, lanes);
  for (uint32_t element = 0; element < shape.elements; ++element) {
    const int32_t slot = SlotOf(op, element);
    if (!nothing && !live_address && LoadSingles(ws, warp, shape, lanes, element, slot)) {
      CommitShadow(ws, warp, slot, false);
      continue;
    }
    if (!nothing && LoadElement(ws, warp, shape, lanes, element, flags, inputs)) {
      DropChanged(ws, warp, shape, lanes, element, slot);
      CommitShadow(ws, warp, slot, slot_is_wide);
    } else {
      ClearShadow(ws, warp, slot, slot_is_wide);
    }
    const uint32_t floats =
        side.from != Format::kInteger ? warp.active : InputFloats(ws, warp, shape, lanes);
    if (floats != 0) {
      SlotHeader& header = ws.headers[slot / 128];
      header.raw |= floats & ~header.live;
    }
  }
  return next;
}

/// What a granule is of which one byte was just stored: no float any more, if it was one or the
/// byte is part of one.
Cell ByteCell(const WarpShadow& ws, const Warp& warp, MemorySpace space, int lane, uint64_t address,
              int32_t slot) {
  Cell cells[4];
  ReadCells(ws, warp, slot, false, lane, cells);
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

/// Whether an input's float that is stored as it was loaded must be known there as a float: where
/// the kernel loads integers.
bool KeepsInputs(const WarpShadow& ws, MemorySpace space) {
  if (space == MemorySpace::kShared) return ws.code->shared_integers;
  if (space == MemorySpace::kLocal) return ws.code->local_integers;
  const bool elsewhere = ws.code->shared_integers || ws.code->local_integers;
  return ws.code->global_integers || (space == MemorySpace::kGeneric && elsewhere);
}

void StoreElement(WarpShadow& ws, const Warp& warp, const Op* op, const AccessShape& shape,
                  const Lanes& lanes, uint32_t element) {
  const uint32_t bytes = shape.element_bytes;
  const int granules = bytes == 8 ? 4 : (bytes == 4 ? 2 : 1);
  const int32_t slot = SlotOf(op, element);
  const bool own = KeepsInputs(ws, shape.space) && IsRaw(ws, slot);
  const bool live = own || IsLive(ws, slot) || ((ws.reset | ws.branch) & warp.active) != 0;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const uint64_t address = (lanes.address[i] + element * bytes) & ~uint64_t{1};
    if (lanes.space[i] == MemorySpace::kGlobal && !live && !ws.memory->Touched(address)) continue;
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
      cells[0] = ByteCell(ws, warp, lanes.space[i], i, address, slot);
    }
    if (live) FlagHistory(ws, i, value, granules, cells);
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
  Lanes lanes;
  FindPlaces(warp, op, shape, lanes);
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr) return nullptr;
  for (uint32_t element = 0; element < shape.elements; ++element) {
    StoreElement(ws, warp, op, shape, lanes, element);
  }
  return next;
}

template <bool IsMasked>
const Op* AccessThunk(Warp& warp, const Op* op) {
  return AccessShape::Unpack(op->aux).store ? StoreThunk<IsMasked>(warp, op)
                                            : LoadThunk<IsMasked>(warp, op);
}

}  // namespace

Thunks AccessThunks() { return {&AccessThunk<false>, &AccessThunk<true>}; }

}  // namespace cupel::emu
