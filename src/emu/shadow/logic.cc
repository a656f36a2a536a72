// Shadows through and, or and xor: masks that keep a float whole, truncate it or split it; parts
// that are combined; and operations on the sign bit.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/shadow/pieces.h"
#include "emu/shadow/shadow.h"
#include "emu/shadow/small.h"

namespace cupel::emu {
namespace {

/// The operation of one lane.
struct Logic {
  const Field* field = nullptr;
  char detail = '&';
  int granules = 2;
  uint64_t bits[2] = {};
  Cell cells[2][4] = {};
  Cell out[4] = {};
  bool taken[4] = {};
};

/// True for a float, or a piece of one, whose highest bit is the sign.
bool HasSign(ShadowKind kind) {
  return (kind != ShadowKind::kNone && kind <= ShadowKind::kDouble) ||
         kind == ShadowKind::kSingle1 || kind == ShadowKind::kDouble3;
}

/// True for a mask that clears the last digits of a float and keeps at least seven, which rounds
/// toward zero. A mask that keeps fewer may have another purpose (for example the power of two).
bool Truncates(ShadowKind kind, uint64_t mask, int size) {
  const int most = kind == ShadowKind::kSingle ? 16 : (kind == ShadowKind::kDouble ? 45 : 0);
  const int cleared = mask == 0 ? 64 : std::countr_zero(mask);
  if (most == 0 || cleared > most) return false;
  const uint64_t all = ~uint64_t{0} >> (64 - 16 * size);
  return mask == (all >> cleared) << cleared;
}

/// The first granule of a signed number that ends at granule `at`, or -1.
int NumberEndingAt(const Cell (&cells)[4], int at) {
  for (int start = at; start >= 0; --start) {
    const ShadowKind kind = KindOf(cells[start].state);
    if (kind == ShadowKind::kNone) continue;
    return start + GranulesOf(kind) - 1 == at && HasSign(kind) ? start : -1;
  }
  return -1;
}

/// The exact value after an operation on the sign bit of a number with this sign: '^' changes it,
/// '|' sets it, '&' clears it.
double WithSign(const Field* field, char detail, double exact, bool is_negative) {
  if (field != nullptr) {
    const bool same = detail == '|' ? is_negative : detail == '&' && !is_negative;
    return same ? exact : field->Neg(exact);
  }
  if (detail == '^') return -exact;
  return detail == '|' ? -std::fabs(exact) : std::fabs(exact);
}

/// The sign bit of the number of `size` granules at `at`.
bool IsNegative(uint64_t bits, int at, int size) {
  return ((bits >> (16 * (at + size) - 1)) & 1u) != 0;
}

/// Applies sign bits of one operand to floats of the other.
void MergeSigns(Logic& x) {
  if (x.detail == '&') return;
  for (int s = 0; s < 2; ++s) {
    for (int g = 0; g < x.granules; ++g) {
      Cell& sign = x.cells[s][g];
      if (KindOf(sign.state) != ShadowKind::kSign) continue;
      const int start = NumberEndingAt(x.cells[1 - s], g);
      const uint64_t bit = uint64_t{0x8000} << (16 * g);
      if (start < 0 || (x.bits[s] & (uint64_t{0xffff} << (16 * g)) & ~bit) != 0) continue;
      Cell& number = x.cells[1 - s][start];
      if ((x.bits[s] & bit) != 0) {
        const int size = GranulesOf(KindOf(number.state));
        number.exact =
            WithSign(x.field, x.detail, number.exact, IsNegative(x.bits[1 - s], start, size));
      }
      number.state |= sign.state & kFlags;
      sign = {};
      x.bits[s] &= ~bit;
    }
  }
}

/// The sign bit of a number alone. It is in doubt if exact arithmetic has the other sign.
Cell SignOf(const Field* field, const Cell& cell, bool negative) {
  const bool doubt = field == nullptr && std::signbit(cell.exact) != negative;
  return {cell.exact, 0,
          StateOf(ShadowKind::kSign, (cell.state & kFlags) | (doubt ? kDecision : 0))};
}

/// Stores a cell at granule `at`. Returns false if its granules are taken.
bool PutCell(Logic& x, int at, const Cell& cell) {
  const int size = GranulesOf(KindOf(cell.state));
  for (int g = at; g < at + size; ++g) {
    if (x.taken[g]) return false;
    x.taken[g] = true;
  }
  x.out[at] = cell;
  return true;
}

/// Handles a mask of whole granules, except for the sign: stores the pieces of `cell` that remain.
bool TakeApart(Logic& x, const Cell& cell, int at, uint64_t mask, bool is_negative) {
  const int size = GranulesOf(KindOf(cell.state));
  for (int k = 0; k < size; ++k) {
    const uint64_t part = (mask >> (16 * k)) & 0xffffu;
    if (part == 0) continue;
    Cell piece = Piece(cell, k);
    if (part == 0x7fffu && k + 1 == size && HasSign(KindOf(cell.state))) {
      piece.exact = WithSign(x.field, '&', cell.exact, is_negative);
    } else if (part != 0xffffu) {
      return false;
    }
    if (!PutCell(x, at + k, piece)) return false;
  }
  return true;
}
bool IsOfGranules(uint64_t mask, int size) {
  for (int k = 0; k < size; ++k) {
    const uint64_t part = (mask >> (16 * k)) & 0xffffu;
    if (part != 0 && part != 0xffffu && (part != 0x7fffu || k + 1 != size)) return false;
  }
  return true;
}

/// Combines the cell at `at` with the other operand's bits and stores the result in `out`. Returns
/// false if the result is not a float.
bool Take(Logic& x, int s, int at) {
  Cell cell = x.cells[s][at];
  const ShadowKind kind = KindOf(cell.state);
  const int size = GranulesOf(kind);
  const uint64_t all = ~uint64_t{0} >> (64 - 16 * size);
  const uint64_t sign = uint64_t{1} << (16 * size - 1);
  const uint64_t mask = (x.bits[1 - s] >> (16 * at)) & all;
  const bool is_negative = IsNegative(x.bits[s], at, size);
  if (x.detail != '&') {
    if (mask == 0) return PutCell(x, at, cell);
    if (mask != sign || !HasSign(kind)) return false;
    cell.exact = WithSign(x.field, x.detail, cell.exact, is_negative);
    return PutCell(x, at, cell);
  }
  if (mask == all) return PutCell(x, at, cell);
  if (kind == ShadowKind::kPair && mask == 0xffu) {  // the lower of two floats of 8 bits
    SmallPair pair = UnpackPair(cell.exact);
    pair.high = 0;
    cell.exact = PackPair(pair);
    return PutCell(x, at, cell);
  }
  if (HasSign(kind) && mask == (all ^ sign)) {
    cell.exact = WithSign(x.field, '&', cell.exact, is_negative);
    return PutCell(x, at, cell);
  }
  if (HasSign(kind) && mask == sign) {
    return PutCell(x, at + size - 1, SignOf(x.field, cell, is_negative));
  }
  if (size > 1 && IsOfGranules(mask, size)) return TakeApart(x, cell, at, mask, is_negative);
  return Truncates(kind, mask, size) && PutCell(x, at, cell);
}

/// Computes the result's cells. If the result is not a float, it is reset.
void Combine(Logic& x) {
  MergeSigns(x);
  uint32_t flags = 0;
  bool whole = true;
  for (int s = 0; s < 2; ++s) {
    for (int g = 0; g < x.granules; ++g) {
      if (x.cells[s][g].state == 0) continue;
      const int size = GranulesOf(KindOf(x.cells[s][g].state));
      const uint64_t mask = (x.bits[1 - s] >> (16 * g)) & (~uint64_t{0} >> (64 - 16 * size));
      if (x.detail == '&' && mask == 0) continue;  // the mask clears it
      flags |= (x.cells[s][g].state & kFlags) | kReset;
      whole = whole && Take(x, s, g);
    }
  }
  if (whole) return JoinPieces(x.out, x.granules);
  for (Cell& cell : x.out) cell = {};
  x.out[0].state = StateOf(x.granules == 4 ? ShadowKind::kLong : ShadowKind::kWord, flags);
}

}  // namespace

void LogicStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  ShadowResult& result = *ws.result;
  result.planes = 0;
  result.raw = 0;
  const bool wide = side.dst == SlotKind::kDouble;
  bool any = false;
  for (int s = 0; s < 2; ++s) any |= IsLive(ws, op->src[s]) || IsRaw(ws, op->src[s]);
  if (!any) return;
  result.planes = wide ? 4 : 2;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    Logic x;
    x.field = ws.field;
    x.detail = side.detail;
    x.granules = result.planes;
    for (int s = 0; s < 2; ++s) {
      x.bits[s] = SlotBits(warp, op->src[s], wide, i);
      ReadCells(ws, warp, op->src[s], wide, i, x.cells[s]);
    }
    Combine(x);
    for (int g = 0; g < result.planes; ++g) {
      result.exact[g][i] = x.out[g].exact;
      result.state[g][i] = x.out[g].state;
    }
  }
}

}  // namespace cupel::emu
