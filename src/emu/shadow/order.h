// For instructions that choose the greater of two registers by their bits: detects floats that
// compare differently in exact arithmetic, because rounding reversed their order or made them
// equal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "base/dtype.h"
#include "emu/shadow/memory.h"

namespace cupel::emu {

/// The float that begins at granule `g` of `bits`.
inline double FloatAt(ShadowKind kind, uint64_t bits, int g) {
  const uint64_t at = bits >> (16 * g);
  switch (kind) {
    case ShadowKind::kHalf:
      return HalfToFloat(static_cast<uint16_t>(at));
    case ShadowKind::kBrain:
      return BFloat16ToFloat(static_cast<uint16_t>(at));
    case ShadowKind::kSingle:
      return std::bit_cast<float>(static_cast<uint32_t>(at));
    default:
      return std::bit_cast<double>(at);
  }
}

/// True if some float of `a` and its counterpart in `b` compare differently from their exact
/// values.
inline bool OrderInDoubt(const Cell (&a)[4], uint64_t a_bits, const Cell (&b)[4], uint64_t b_bits,
                         int granules) {
  for (int g = 0; g < granules; ++g) {
    const ShadowKind kind = KindOf(a[g].state);
    if (!IsFloatKind(kind) || kind != KindOf(b[g].state)) continue;
    if (a[g].exact == b[g].exact) continue;
    if (IsPiece(kind)) return true;
    const double x = FloatAt(kind, a_bits, g), y = FloatAt(kind, b_bits, g);
    if ((x < y) != (a[g].exact < b[g].exact) || x == y) return true;
  }
  return false;
}

}  // namespace cupel::emu
