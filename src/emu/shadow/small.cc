// Conversions to pairs of 8-bit floats and back.
// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow/small.h"

#include <algorithm>
#include <cmath>

#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

/// Conversions saturate. A NaN stays NaN, although relu elsewhere treats it as a number.
double Clamped(double exact, bool is_e4m3, bool relu) {
  if (std::isnan(exact)) return exact;
  const double largest = is_e4m3 ? 448 : 57344;
  return std::clamp(exact, relu ? 0 : -largest, largest);
}

void Narrow(WarpShadow& ws, const Warp& warp, const Op* op, const Side& side) {
  ShadowResult& result = *ws.result;
  double exact[2][kLanes];
  uint32_t flags[kLanes] = {};
  for (int at = 0; at < 2; ++at) {  // the first of two operands is the upper one
    const bool pair = side.from == Format::kF16;
    const int32_t source = op->src[pair ? 0 : 1 - at];
    Gather(ws, warp, source, false, side.from, pair ? at : 0, exact[at], nullptr, flags);
  }
  const bool is_e4m3 = side.bytes == 4;
  result.planes = 1;
  result.raw = 0;
  for (int i = 0; i < kLanes; ++i) {
    result.exact[0][i] = PackPair({static_cast<float>(Clamped(exact[0][i], is_e4m3, side.relu)),
                                   static_cast<float>(Clamped(exact[1][i], is_e4m3, side.relu))});
    result.state[0][i] = StateOf(ShadowKind::kPair, flags[i] | kSmall);
  }
}

void Widen(WarpShadow& ws, const Warp& warp, const Op* op, const Side& side) {
  ShadowResult& result = *ws.result;
  result.planes = 0;
  result.raw = 0;
  if (!IsLive(ws, op->src[0])) return;
  result.planes = 2;
  for (int i = 0; i < kLanes; ++i) {
    Cell cells[4];
    ReadCells(ws, warp, op->src[0], false, i, cells);
    const auto bits = static_cast<uint32_t>(SlotBits(warp, op->src[0], false, i));
    const bool known = KindOf(cells[0].state) == ShadowKind::kPair;
    SmallPair pair = UnpackPair(cells[0].exact);
    uint32_t flags = cells[0].state & kFlags;
    if (!known && IsFloatKind(KindOf(cells[0].state))) flags |= kReset;
    for (int at = 0; at < 2; ++at) {
      const double value = ValueOfByte((bits >> (8 * at)) & 0xffu, side.bytes == 4);
      Shadow half{value, flags};
      if (known) half = HalfOf(HalfAt(pair, static_cast<uint64_t>(at)), value, flags);
      if (side.relu && half.exact < 0) half.exact = 0;
      result.exact[at][i] = half.exact;
      result.state[at][i] = StateOf(ShadowKind::kHalf, half.flags);
    }
  }
}

/// In a field: a pair has no room for two elements.
void NotFollowed(WarpShadow& ws, const Side& side) {
  ShadowResult& result = *ws.result;
  const bool narrows = side.detail == 'n';
  result.planes = narrows ? 1 : 2;
  result.raw = 0;
  const uint32_t state = narrows ? StateOf(ShadowKind::kShort, kReset)
                                 : StateOf(ShadowKind::kHalf, kReset) | kTakeValue;
  for (int at = 0; at < result.planes; ++at) {
    for (int i = 0; i < kLanes; ++i) result.state[at][i] = state;
  }
}

}  // namespace

double ValueOfByte(uint32_t byte, bool is_e4m3) {
  return Float8ToFloat(is_e4m3 ? DType::kF8E4M3 : DType::kF8E5M2, static_cast<uint8_t>(byte));
}

Shadow HalfOf(float exact, double value, uint32_t flags) {
  if (std::isnan(exact) && !std::isnan(value)) return {value, flags | kReset};
  return {static_cast<double>(exact), flags};
}

void RoundToFloat8(DType dtype, double value, Shadow& shadow) {
  const double largest = LargestFinite(dtype);
  shadow.exact = std::isfinite(value) ? std::clamp(shadow.exact, -largest, largest) : value;
  shadow.flags |= kSmall;
}

void SmallFloatStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  if (ws.field != nullptr) return NotFollowed(ws, side);
  if (side.detail == 'n') return Narrow(ws, warp, op, side);
  Widen(ws, warp, op, side);
}

}  // namespace cupel::emu
