// Matrix products of integers: they have flags but no exact values.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "emu/core/handler_table.h"
#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

uint32_t FlagsOfLanes(const WarpShadow& ws, const Warp& warp, int32_t slot, uint32_t* flags) {
  std::fill(flags, flags + kLanes, 0u);
  if (!IsLive(ws, slot) && !IsRaw(ws, slot)) return 0;
  return GatherFlags(ws, warp, slot, SlotKind::kWord, flags);
}

/// A result has the flags of its line of a and its column of b.
template <bool IsMasked>
const Op* IntegerProductThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const ProductShape shape = ProductShape::Unpack(op->flops);
  const auto m = static_cast<int>(shape.m), n = static_cast<int>(shape.n);
  const auto k = static_cast<int>(shape.k);
  const int32_t* list = ListOf(warp, op);
  const int32_t *of_b = list + m * k, *of_c = of_b + n * k, *of_d = of_c + 2 * m * n;
  uint32_t lines[kMostProductElements] = {};  // of a, then of b
  uint32_t found[kLanes];
  for (int block = 0; block < (m + n) * k; ++block) {
    const int line = block < m * k ? block / k : m + (block - m * k) / k;
    if (FlagsOfLanes(ws, warp, list[block], found) == 0) continue;
    for (int lane = 0; lane < kLanes; ++lane) lines[line * 8 + lane / 4] |= found[lane];
  }
  std::vector<uint32_t> flags(static_cast<size_t>(2 * m * n) * kLanes);
  for (int slot = 0; slot < 2 * m * n; ++slot) {
    FlagsOfLanes(ws, warp, of_c[slot], found);
    const int row = slot / 2 / n * 8, column = m * 8 + slot / 2 % n * 8;
    for (int lane = 0; lane < kLanes; ++lane) {
      flags[static_cast<size_t>(slot) * kLanes + static_cast<size_t>(lane)] =
          found[lane] | lines[row + lane / 4] | lines[column + lane % 4 * 2 + slot % 2];
    }
  }
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr) return nullptr;
  ShadowResult& result = *ws.result;
  for (int slot = 0; slot < 2 * m * n; ++slot) {
    result.planes = 1;
    result.raw = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint32_t own = flags[static_cast<size_t>(slot) * kLanes + static_cast<size_t>(lane)];
      result.state[0][lane] = own == 0 ? 0 : StateOf(ShadowKind::kWord, own);
    }
    CommitShadow(ws, warp, of_d[slot], false);
  }
  return next;
}

}  // namespace

Thunks IntegerProductThunks() { return {&IntegerProductThunk<false>, &IntegerProductThunk<true>}; }

}  // namespace cupel::emu
