// Shadows that move: copies, selections, shuffles, packing and unpacking, shifts and permutations
// of whole granules. Other integer instructions leave flags.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/shadow/pieces.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

int GranulesOfSlot(SlotKind kind) { return kind == SlotKind::kDouble ? 4 : 2; }

/// Moves that do not depend on the lane, by Side::detail.
void FixedMove(char detail, From (&map)[4]) {
  switch (detail) {
    case 'd':  // a doubleword
      for (int g = 0; g < 4; ++g) map[g] = {0, g};
      break;
    case 'm':  // a word, also the lower one of a doubleword, and widened
      map[0] = {0, 0};
      map[1] = {0, 1};
      break;
    case 'y':  // the upper word
      map[0] = {0, 2};
      map[1] = {0, 3};
      break;
    case 'a':  // two words to a doubleword
      for (int g = 0; g < 4; ++g) map[g] = {g / 2, g % 2};
      break;
    case 'b':  // two halves
    case 'c':  // four
      for (int g = 0; g < (detail == 'b' ? 2 : 4); ++g) map[g] = {g, 0};
      break;
    default:  // '0' to '3': one granule
      map[0] = {0, detail - '0'};
  }
}

/// prmt: bytes n and n + 1 of the operands' eight, n even, for each half. False otherwise.
bool Permutation(uint32_t selector, From (&map)[4]) {
  for (int g = 0; g < 2; ++g) {
    const uint32_t low = (selector >> (8 * g)) & 15u, high = (selector >> (8 * g + 4)) & 15u;
    if (low % 2 != 0 || low >= 8 || high != low + 1) return false;
    map[g] = {static_cast<int>(low / 4), static_cast<int>(low / 2 % 2)};
  }
  return true;
}

/// bfe (of an unsigned field) and bfi, whose first operand provides the field.
bool Field(bool inserts, uint32_t from, uint32_t bits, int granules, From (&map)[4]) {
  if (from % 16 != 0 || bits % 16 != 0) return false;
  const int begin = static_cast<int>(from / 16), count = static_cast<int>(bits / 16);
  for (int g = 0; g < granules; ++g) {
    if (inserts) {
      map[g] = g >= begin && g < begin + count ? From{0, g - begin} : From{1, g};
    } else if (g < count && g + begin < granules) {
      map[g] = {0, g + begin};
    }
  }
  return true;
}

/// Moves that depend on an operand. Returns false if the op does not move whole granules.
bool LaneMove(const Warp& warp, const Op* op, const Side& side, int lane, From (&map)[4]) {
  auto word = [&](int s) { return At<const uint32_t>(warp, op->src[s])[lane]; };
  const int granules = GranulesOfSlot(side.dst);
  if (side.detail == 'P') return Permutation(word(2), map);
  if (side.detail == 'E' || side.detail == 'I') {
    const bool inserts = side.detail == 'I';
    return Field(inserts, word(inserts ? 2 : 1) & 0xffu, word(inserts ? 3 : 2) & 0xffu, granules,
                 map);
  }
  const uint32_t by = word(side.detail == 'F' ? 2 : 1);
  if (by % 16 != 0) return false;
  const int step = static_cast<int>(std::min<uint32_t>(by / 16, 4));
  for (int g = 0; g < granules; ++g) {
    if (side.detail == 'F') {  // shf: the middle of b:a; by 16 both directions agree
      if (step != 1) return false;
      map[g] = g == 0 ? From{0, 1} : From{1, 0};
      continue;
    }
    const int from = side.detail == 'L' ? g - step : g + step;
    if (from >= 0 && from < granules) map[g] = {0, from};
  }
  return true;
}

bool Quiet(const WarpShadow& ws, const Op* op, int sources) {
  for (int s = 0; s < sources; ++s) {
    if (IsLive(ws, op->src[s]) || IsRaw(ws, op->src[s])) return false;
  }
  return true;
}

void Nothing(ShadowResult& result) {
  result.planes = 0;
  result.raw = 0;
}

}  // namespace

/// A value that covers several granules moves as a whole, or is split into pieces that may be
/// joined again.
void MoveCells(const Cell (&cells)[4][4], const From (&map)[4], int granules, int lane,
               ShadowResult& result) {
  Cell out[4] = {};
  bool pieces = false;
  for (int g = 0; g < granules; ++g) {
    const From& from = map[g];
    if (from.source < 0) continue;
    // The cell that covers this granule.
    int start = from.granule;
    while (start >= 0) {
      const ShadowKind kind = KindOf(cells[from.source][start].state);
      if (kind != ShadowKind::kNone && start + GranulesOf(kind) > from.granule) break;
      --start;
    }
    if (start < 0) continue;
    const Cell& cell = cells[from.source][start];
    const int size = GranulesOf(KindOf(cell.state));
    const int first = g - (from.granule - start);
    bool whole = first >= 0 && first + size <= granules;
    for (int k = 0; k < size && whole; ++k) whole = map[first + k] == From{from.source, start + k};
    if (!whole) {
      out[g] = Piece(cell, from.granule - start);
    } else if (first == g) {
      out[g] = cell;
    }
    pieces |= IsPiece(KindOf(out[g].state));
  }
  if (pieces) JoinPieces(out, granules);
  for (int g = 0; g < granules; ++g) {
    result.exact[g][lane] = out[g].exact;
    result.state[g][lane] = out[g].state;
  }
}

void MoveStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  ShadowResult& result = *ws.result;
  if (Quiet(ws, op, side.sources)) return Nothing(result);
  From map[4];
  FixedMove(side.detail, map);
  const int granules = GranulesOfSlot(side.dst);
  result.planes = granules;
  result.raw = 0;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    Cell cells[4][4];
    for (int s = 0; s < side.sources; ++s) {
      ReadCells(ws, warp, op->src[s], side.src[s] == SlotKind::kDouble, i, cells[s]);
    }
    MoveCells(cells, map, granules, i, result);
  }
}

void GranuleStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  ShadowResult& result = *ws.result;
  const bool two = side.detail == 'P' || side.detail == 'F' || side.detail == 'I';
  const int sources = two ? 2 : 1;
  if (Quiet(ws, op, sources)) return Nothing(result);
  const int granules = GranulesOfSlot(side.dst);
  result.planes = granules;
  result.raw = 0;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    Cell cells[4][4] = {};
    uint32_t flags = 0;
    for (int s = 0; s < sources; ++s) {
      ReadCells(ws, warp, op->src[s], side.src[s] == SlotKind::kDouble, i, cells[s]);
      for (const Cell& cell : cells[s]) {
        if (cell.state != 0) flags |= (cell.state & kFlags) | (side.cancels ? 0 : kReset);
      }
    }
    From map[4];
    if (flags == 0 || LaneMove(warp, op, side, i, map)) {
      MoveCells(cells, map, granules, i, result);
      continue;
    }
    for (int g = 0; g < granules; ++g) result.state[g][i] = 0;
    result.state[0][i] = StateOf(granules == 4 ? ShadowKind::kLong : ShadowKind::kWord, flags);
  }
}

/// In a field, if a constant is chosen and the other number has the same bits, the other one
/// counts: tanhf of the CUDA library is 1 where it would be rounded to 1.
void SelectStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  ShadowResult& result = *ws.result;
  const uint32_t tainted = ws.taints[op->src[2] / 4] & warp.active;
  if (tainted == 0 && Quiet(ws, op, 2)) return Nothing(result);
  const bool wide = side.dst == SlotKind::kDouble;
  const int granules = wide ? 4 : 2;
  const uint32_t first = MaskAt(warp, op->src[2]);
  result.planes = granules;
  result.raw = 0;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    Cell cells[4];
    const int chosen = ((first >> i) & 1u) != 0 ? 0 : 1;
    ReadCells(ws, warp, op->src[chosen], wide, i, cells);
    if (ws.field != nullptr && cells[0].state == 0 &&
        SlotBits(warp, op->src[0], wide, i) == SlotBits(warp, op->src[1], wide, i)) {
      ReadCells(ws, warp, op->src[1 - chosen], wide, i, cells);
    }
    const bool flag = ((tainted >> i) & 1u) != 0;
    bool any = false;
    for (int g = 0; g < granules; ++g) {
      if (flag && cells[g].state != 0) cells[g].state |= kDecision;
      any |= cells[g].state != 0;
      result.exact[g][i] = cells[g].exact;
      result.state[g][i] = cells[g].state;
    }
    if (flag && !any) {
      result.state[0][i] = StateOf(wide ? ShadowKind::kLong : ShadowKind::kWord, kDecision);
    }
  }
}

void ShuffleStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  ShadowResult& result = *ws.result;
  if (op->imm >= 0) ws.taints[op->imm / 4] &= ~warp.active;
  if (Quiet(ws, op, 1)) return Nothing(result);
  result.planes = 2;
  result.raw = 0;
  const auto* by = At<const uint32_t>(warp, op->src[1]);
  const auto* clamp = At<const uint32_t>(warp, op->src[2]);
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const int segment = static_cast<int>((clamp[i] >> 8) & 31u);
    const int bound = static_cast<int>(clamp[i] & 31u);
    const int b = static_cast<int>(by[i] & 31u);
    const int low = i & segment, high = low | (bound & ~segment);
    int j = low | (b & ~segment);
    if (side.detail == 'u') j = i - b;
    if (side.detail == 'd') j = i + b;
    if (side.detail == 'b') j = i ^ b;
    if (side.detail == 'u' ? j < high : j > high) j = i;
    Cell cells[4];
    ReadCells(ws, warp, op->src[0], false, j & 31, cells);
    for (int g = 0; g < 2; ++g) {
      result.exact[g][i] = cells[g].exact;
      result.state[g][i] = cells[g].state;
    }
  }
}

void IntegerStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  ShadowResult& result = *ws.result;
  Nothing(result);
  uint32_t flags[kLanes];
  bool any = false;
  for (int s = 0; s < side.sources; ++s) {
    const bool predicate = side.src[s] == SlotKind::kPredicate;
    const int32_t from = op->src[s];
    if (predicate ? ws.taints[from / 4] == 0 : !IsLive(ws, from) && !IsRaw(ws, from)) {
      continue;
    }
    if (!any) std::memset(flags, 0, sizeof flags);
    any = true;
    GatherFlags(ws, warp, op->src[s], side.src[s], flags);
  }
  if (side.dst == SlotKind::kPredicate) {
    uint32_t lanes = 0;
    for (int i = 0; any && i < kLanes; ++i) lanes |= uint32_t{flags[i] != 0} << i;
    uint32_t& taint = ws.taints[op->dst / 4];
    taint = (taint & ~warp.active) | (lanes & warp.active);
    return;
  }
  if (!any) return;
  const bool wide = side.dst == SlotKind::kDouble;
  result.planes = 1;
  for (int i = 0; i < kLanes; ++i) {
    const ShadowKind kind = wide ? ShadowKind::kLong : ShadowKind::kWord;
    result.state[0][i] = flags[i] == 0 ? 0 : StateOf(kind, flags[i]);
  }
}

}  // namespace cupel::emu
