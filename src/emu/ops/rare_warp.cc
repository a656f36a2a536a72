// Warp-level instructions of recent GPUs, and checks that parts of an access skip.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <string>

#include "emu/check/report.h"
#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/ops/handlers.h"
#include "emu/ops/warp_parts.h"

namespace cupel::emu {
namespace {

/// redux of floats: -0 is less than +0. With `Nan` a NaN wins; otherwise NaNs are skipped.
template <bool Max, bool Magnitude, bool Nan>
const Op* ReduceFloats(Warp& warp, const Op* op) {
  const uint32_t lanes = Participants(warp, op, 1);
  if (lanes == 0) return nullptr;
  const auto* values = At<const float>(warp, op->src[0]);
  float result = std::nanf("");
  bool has_nan = false;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    float value = values[__builtin_ctz(rest)];
    if constexpr (Magnitude) value = std::fabs(value);
    if (std::isnan(value)) {
      has_nan = true;
      continue;
    }
    const bool smaller = value < result || (value == result && std::signbit(value));
    const bool larger = value > result || (value == result && !std::signbit(value));
    if (std::isnan(result) || (Max ? larger : smaller)) result = value;
  }
  if (std::isnan(result) || (Nan && has_nan)) result = std::bit_cast<float>(0x7fffffffu);
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    At<float>(warp, op->dst)[__builtin_ctz(rest)] = result;
  }
  return op + 1;
}

/// dst: the leader's lane; src[2]: the predicate that is true only in the leader.
const Op* Elect(Warp& warp, const Op* op) {
  const uint32_t lanes = Participants(warp, op, 1);
  if (lanes == 0) return nullptr;
  const uint32_t named = At<const uint32_t>(warp, op->src[1])[__builtin_ctz(lanes)];
  const uint32_t among = (lanes & named) != 0 ? lanes & named : lanes;
  const int leader = __builtin_ctz(among);
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    At<uint32_t>(warp, op->dst)[__builtin_ctz(rest)] = static_cast<uint32_t>(leader);
  }
  uint32_t& mask = MaskAt(warp, op->src[2]);
  mask = (mask & ~lanes) | 1u << leader;
  return op + 1;
}

/// src[0] and imm: addresses; flops: the required alignment.
const Op* Aligned(Warp& warp, const Op* op) {
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const uint64_t address =
        At<const uint64_t>(warp, op->src[0])[lane] + static_cast<uint64_t>(op->imm);
    if (address % op->flops != 0) {
      return MemoryFault(warp, op, FaultKind::kMisaligned, MemorySpace::kGlobal, lane, address,
                         op->flops, AccessShape::Unpack(op->aux).store);
    }
  }
  return op + 1;
}

template <bool Max, bool Magnitude, bool Nan>
void AddReduction(HandlerTable& table) {
  Entry entry;
  entry.full = entry.masked = &ByMask<&ReduceFloats<Max, Magnitude, Nan>, 1>;
  entry.dst = entry.src[0] = entry.src[1] = SlotKind::kWord;
  table.Add(std::string("redux.") + (Max ? "max" : "min") + (Magnitude ? ".abs" : "") +
                (Nan ? ".NaN" : "") + ".f32",
            entry);
}

}  // namespace

void RegisterRareWarp(HandlerTable& table) {
  AddReduction<false, false, false>(table);
  AddReduction<false, false, true>(table);
  AddReduction<false, true, false>(table);
  AddReduction<false, true, true>(table);
  AddReduction<true, false, false>(table);
  AddReduction<true, false, true>(table);
  AddReduction<true, true, false>(table);
  AddReduction<true, true, true>(table);
  Entry entry;
  entry.full = entry.masked = &ByMask<&Elect, 1>;
  table.Add("@elect", entry);
  entry.full = entry.masked = &Aligned;
  table.Add("@aligned", entry);
}

}  // namespace cupel::emu
