// Shadows through loads, lane by lane. The op itself checks the access.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/shadow/lanes.h"
#include "emu/shadow/pieces.h"
#include "emu/shadow/place.h"
#include "emu/shadow/shadow.h"
#include "emu/shadow/small.h"

namespace cupel::emu {
namespace {

/// Adds flags for values that are loaded through an address that depends on a float.
void AddressFlags(const WarpShadow& ws, const Warp& warp, const Op* op, bool wide,
                  uint32_t* flags) {
  uint32_t found[kLanes] = {};
  GatherFlags(ws, warp, op->src[0], wide ? SlotKind::kDouble : SlotKind::kWord, found);
  for (int i = 0; i < kLanes; ++i) {
    if (found[i] != 0) flags[i] |= kDecision;
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

/// Adds flags to those of a lane's cells. Returns false if there are none.
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

/// True if the eight bytes around an address have no cell, so no float overlaps the address.
bool NothingNear(const WarpShadow& ws, MemorySpace space, uint64_t address) {
  if (space != MemorySpace::kShared && space != MemorySpace::kGlobal) return false;
  const Cell* cells = CellAt(ws, space, 0, address & ~uint64_t{7});
  if (cells == nullptr) return true;
  return (cells[0].state | cells[1].state | cells[2].state | cells[3].state) == 0;
}

/// Loads one element of all lanes: cells become the planes of its slot.
bool LoadElement(WarpShadow& ws, const Warp& warp, const AccessShape& shape,
                 const LanePlaces& lanes, uint32_t element, const uint32_t* flags, bool inputs) {
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
      state = lost ? StateOf(ShadowKind::kShort, kReset) : 0;  // local memory is not followed
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
      if (bytes == 1 && kind == ShadowKind::kPair) {
        SmallPair pair = UnpackPair(cell.exact);
        result.exact[g][i] = PackPair({HalfAt(pair, lanes.address[i] + element), 0});
      } else if (bytes == 1) {
        state = StateOf(ShadowKind::kShort, (state & kFlags) | kReset);
      }
      covered = GranulesOf(kind) - 1;
      any = true;
    }
    any |= AddFlags(flags[i], granules, i, result);
  }
  return any;
}

/// Drops cells whose bits differ from the loaded bits: a cell is valid only for its bits.
void DropChanged(WarpShadow& ws, const Warp& warp, const AccessShape& shape,
                 const LanePlaces& lanes, uint32_t element, int32_t slot) {
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
      if (shape.element_bytes == 1 ? IsTiedToByte(*cell, address, bits)
                                   : cell->bits == TiedBits(kind, bits, g)) {
        continue;
      }
      result.state[g][i] = kind == ShadowKind::kPair ? LostPair(*cell, bits, g).state : 0;
    }
  }
  if (pieces) JoinLoaded(warp, result);
}

/// The common case: each lane loads a float32 that has a shadow. Returns false in other cases.
bool LoadSingles(WarpShadow& ws, const Warp& warp, const AccessShape& shape,
                 const LanePlaces& lanes, uint32_t element, int32_t slot) {
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

/// True if memory near all addresses was never written, as for most loads of inputs.
bool AllUntouched(const WarpShadow& ws, const Warp& warp, const AccessShape& shape,
                  const LanePlaces& lanes) {
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

/// True if the load is of parts or several of an input's float32 numbers, not of a single one.
bool LoadsParts(const WarpShadow& ws, const Warp& warp, const AccessShape& shape,
                const LanePlaces& lanes) {
  const int i = warp.active == 0 ? 0 : __builtin_ctz(warp.active);
  return shape.element_bytes != 4 && lanes.space[i] == MemorySpace::kGlobal &&
         ws.memory->AreFloats(lanes.address[i]);
}

/// The active lanes whose address in global memory `holds`.
template <class F>
uint32_t GlobalLanes(const Warp& warp, const LanePlaces& lanes, F holds) {
  uint32_t found = 0;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const bool here = lanes.space[i] == MemorySpace::kGlobal && holds(lanes.address[i]);
    found |= uint32_t{here} << i;
  }
  return found;
}

/// Lanes that load an input's float32 numbers as integers, to use their bits.
uint32_t InputFloats(const WarpShadow& ws, const Warp& warp, const AccessShape& shape,
                     const LanePlaces& lanes) {
  if (shape.element_bytes != 4) return 0;
  return GlobalLanes(warp, lanes, [&](uint64_t at) { return ws.memory->AreFloats(at); });
}

/// Lanes that load inputs of another type as floats: two halves as one number.
uint32_t OtherInputs(const WarpShadow& ws, const Warp& warp, const LanePlaces& lanes) {
  if (!ws.memory->HasOthers()) return 0;
  return GlobalLanes(warp, lanes, [&](uint64_t at) { return ws.memory->AreOthers(at); });
}

template <bool IsMasked>
const Op* LoadThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const AccessShape shape = AccessShape::Unpack(op->aux);
  LanePlaces lanes;
  FindPlaces(warp, op, shape, lanes);
  uint32_t flags[kLanes] = {};
  const bool wide = HasWideAddresses(shape.space);
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
    const uint32_t floats = side.from != Format::kInteger
                                ? warp.active & ~OtherInputs(ws, warp, lanes)
                                : InputFloats(ws, warp, shape, lanes);
    if (floats != 0) {
      SlotHeader& header = ws.headers[slot / 128];
      header.raw |= floats & ~header.live;
    }
  }
  return next;
}

}  // namespace

Thunks LoadThunks() { return {&LoadThunk<false>, &LoadThunk<true>}; }

}  // namespace cupel::emu
