// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow/pieces.h"

#include <bit>
#include <cmath>

namespace cupel::emu {
namespace {

/// Compares magnitudes: an operation on the sign changes only the upper piece.
bool SameMagnitude(const Cell& a, const Cell& b) {
  return std::bit_cast<uint64_t>(std::fabs(a.exact)) == std::bit_cast<uint64_t>(std::fabs(b.exact));
}

bool JoinAt(Cell* cells, ShadowKind first, int count, ShadowKind whole) {
  Cell& top = cells[count - 1];
  uint32_t flags = 0;
  for (int k = 0; k < count; ++k) {
    const auto want = static_cast<uint32_t>(first) + static_cast<uint32_t>(k);
    if (static_cast<uint32_t>(KindOf(cells[k].state)) != want || !SameMagnitude(cells[k], top)) {
      return false;
    }
    flags |= cells[k].state & kFlags;
  }
  cells[0] = {top.exact, 0, StateOf(whole, flags)};
  for (int k = 1; k < count; ++k) cells[k] = {};
  return true;
}

}  // namespace

ShadowKind PieceOf(ShadowKind whole, int index) {
  const auto at = static_cast<uint32_t>(index);
  if (whole == ShadowKind::kSingle) {
    return static_cast<ShadowKind>(static_cast<uint32_t>(ShadowKind::kSingle0) + at);
  }
  if (whole == ShadowKind::kDouble) {
    return static_cast<ShadowKind>(static_cast<uint32_t>(ShadowKind::kDouble0) + at);
  }
  return ShadowKind::kShort;
}

Cell Piece(const Cell& cell, int index) {
  const ShadowKind kind = PieceOf(KindOf(cell.state), index);
  const uint32_t flags = cell.state & kFlags;
  return {cell.exact, 0, StateOf(kind, kind == ShadowKind::kShort ? flags | kReset : flags)};
}

void JoinPieces(Cell* cells, int granules) {
  for (int g = 0; g + 1 < granules; ++g) {
    const ShadowKind kind = KindOf(cells[g].state);
    if (kind == ShadowKind::kSingle0) JoinAt(cells + g, kind, 2, ShadowKind::kSingle);
  }
  if (granules == 4) JoinAt(cells, ShadowKind::kDouble0, 4, ShadowKind::kDouble);
}

bool TruncatedFloat(ShadowKind want, uint64_t own, const Cell* cells, int granules, int at,
                    Shadow* shadow) {
  if (want == ShadowKind::kBrain) {
    if (KindOf(cells[at].state) != ShadowKind::kSingle1) return false;
    *shadow = {cells[at].exact, cells[at].state & kFlags};
    return true;
  }
  const bool single = want == ShadowKind::kSingle;
  const int size = single ? 2 : 4;
  if ((!single && want != ShadowKind::kDouble) || at + size > granules) return false;
  const Cell& top = cells[at + size - 1];
  if (KindOf(top.state) != PieceOf(want, size - 1)) return false;
  uint32_t flags = top.state & kFlags;
  // The lower granules must be pieces of the same float, or zero. A double's upper quarter alone is
  // too short for a number.
  for (int k = 0; k + 1 < size; ++k) {
    const Cell& low = cells[at + k];
    const bool same = KindOf(low.state) == PieceOf(want, k) && SameMagnitude(low, top);
    const bool zero = low.state == 0 && ((own >> (16 * k)) & 0xffffu) == 0 && k != 2;
    if (!same && !zero) return false;
    flags |= low.state & kFlags;
  }
  *shadow = {top.exact, flags};
  return true;
}

}  // namespace cupel::emu
