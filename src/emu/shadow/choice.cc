// Integer instructions whose result is, bit for bit, one of their operands: sums with zero,
// products with one, and minimum and maximum, which order floats of one sign like their bits. The
// float's shadow is kept. So it is in a sum of a float32 and at most half a unit of its upper half:
// bfloat16 is rounded to nearest like this, and exact values are not changed by rounding. In all
// other cases these are arithmetic on the bits, which resets. If that only changes the exponent
// (the mathematical library's logarithms do so), the exact value is scaled by that power of two.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/shadow/order.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

struct ChoiceOperand {
  uint64_t bits = 0;
  Cell cells[4] = {};
  bool known = false;  // it has flags or a shadow
};

bool HoldsFloat(const ChoiceOperand (&x)[2]) {
  const auto is_float = [](const Cell& cell) { return IsFloatKind(KindOf(cell.state)); };
  return std::any_of(x[0].cells, x[0].cells + 4, is_float) ||
         std::any_of(x[1].cells, x[1].cells + 4, is_float);
}

/// Compares as signed or unsigned numbers of the register's width.
bool Less(const ChoiceOperand& a, const ChoiceOperand& b, bool is_signed, bool wide) {
  if (!is_signed) return a.bits < b.bits;
  if (wide) return static_cast<int64_t>(a.bits) < static_cast<int64_t>(b.bits);
  return static_cast<int32_t>(a.bits) < static_cast<int32_t>(b.bits);
}

/// The operand that equals the result; -1: neither.
int Chosen(const ChoiceOperand (&x)[2], const Side& side, bool wide) {
  if (side.detail == '<' || side.detail == '>') {
    if (x[0].bits == x[1].bits) return x[0].known ? 0 : 1;
    return Less(x[0], x[1], side.is_signed, wide) == (side.detail == '<') ? 0 : 1;
  }
  // A zero (or one) that was computed from a float is such a value only by chance.
  const uint64_t neutral = side.detail == '*' ? 1 : 0;
  if (x[1].bits == neutral && !x[1].known) return 0;
  if (side.detail != '-' && x[0].bits == neutral && !x[0].known) return 1;
  return -1;
}

/// If a sum or difference adds to the exponent of a float32, and changes neither sign nor digits:
/// the float multiplied by that power of two, without flags. Otherwise an empty cell.
Cell Scaled(const Field* field, const ChoiceOperand (&x)[2], const Side& side) {
  if (side.detail != '+' && side.detail != '-') return {};
  constexpr int kDigits = 23;
  constexpr uint32_t kDigitMask = (1u << kDigits) - 1;
  const auto exponent = [](uint32_t bits) { return static_cast<int>((bits >> kDigits) & 0xffu); };
  const auto is_normal = [](int e) { return e > 0 && e < 0xff; };
  for (int s = 0; s < (side.detail == '+' ? 2 : 1); ++s) {
    if (KindOf(x[s].cells[0].state) != ShadowKind::kSingle) continue;
    const auto bits = static_cast<uint32_t>(x[s].bits),
               other = static_cast<uint32_t>(x[1 - s].bits);
    const uint32_t result = side.detail == '+' ? bits + other : bits - other;
    const int from = exponent(bits), to = exponent(result);
    const bool same_sign = ((bits ^ result) >> 31) == 0;
    if ((other & kDigitMask) != 0 || !same_sign || !is_normal(from) || !is_normal(to)) continue;
    const double exact = x[s].cells[0].exact;
    const double scaled = field == nullptr
                              ? std::ldexp(exact, to - from)
                              : field->Mul(exact, field->Leaf(std::ldexp(1.0, to - from)));
    return {scaled, 0, StateOf(ShadowKind::kSingle)};
  }
  return {};
}

/// If a sum adds at most half a unit of the upper 16 bits to a float32: that float, whatever the
/// addend depends on, since it only decides how the upper half is rounded. Otherwise an empty cell.
Cell Rounded(const ChoiceOperand (&x)[2], const Side& side) {
  constexpr uint64_t kHalfUnit = 0x8000;
  if (side.detail != '+') return {};
  for (int s = 0; s < 2; ++s) {
    const Cell& cell = x[s].cells[0];
    if (KindOf(cell.state) != ShadowKind::kSingle || x[1 - s].bits > kHalfUnit) continue;
    const auto bits = static_cast<uint32_t>(x[s].bits);
    const uint32_t result = bits + static_cast<uint32_t>(x[1 - s].bits);
    const bool is_finite = (result & 0x7f800000u) != 0x7f800000u;
    if (((bits ^ result) >> 31) == 0 && is_finite) return cell;
  }
  return {};
}

}  // namespace

void ChoiceStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  ShadowResult& result = *ws.result;
  result.planes = 0;
  result.raw = 0;
  bool any = false;
  for (int s = 0; s < 2; ++s) any |= IsLive(ws, op->src[s]) || IsRaw(ws, op->src[s]);
  if (!any) return;
  const bool wide = side.dst == SlotKind::kDouble;
  const int granules = wide ? 4 : 2;
  result.planes = granules;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    ChoiceOperand x[2];
    uint32_t flags = 0;  // of results computed from both
    for (int s = 0; s < 2; ++s) {
      x[s].bits = SlotBits(warp, op->src[s], wide, i);
      ReadCells(ws, warp, op->src[s], wide, i, x[s].cells);
      for (int g = 0; g < granules; ++g) {
        const uint32_t state = x[s].cells[g].state;
        x[s].known |= state != 0;
        flags |= state & kFlags;
      }
    }
    const int chosen = Chosen(x, side, wide);
    const bool orders = side.detail == '<' || side.detail == '>';
    if (orders && ws.field == nullptr &&
        OrderInDoubt(x[0].cells, x[0].bits, x[1].cells, x[1].bits, granules)) {
      flags |= kDecision;
    }
    if (const Cell rounded = chosen < 0 && !wide ? Rounded(x, side) : Cell{}; rounded.state != 0) {
      result.exact[0][i] = rounded.exact;
      result.state[0][i] = rounded.state;
      result.state[1][i] = 0;
      continue;
    }
    if (chosen < 0 && HoldsFloat(x)) flags |= kReset;
    bool none = true;
    for (int g = 0; g < granules; ++g) {
      const Cell cell = chosen >= 0       ? x[chosen].cells[g]
                        : g == 0 && !wide ? Scaled(ws.field, x, side)
                                          : Cell{};
      result.exact[g][i] = cell.exact;
      result.state[g][i] = cell.state == 0 ? 0 : cell.state | flags;
      none &= cell.state == 0;
    }
    if (none && flags != 0) {
      result.state[0][i] = StateOf(wide ? ShadowKind::kLong : ShadowKind::kWord, flags);
    }
  }
}

}  // namespace cupel::emu
