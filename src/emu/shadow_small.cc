// Conversions to pairs of 8-bit floats and back.
// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow_small.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "emu/shadow.h"

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
    // Three digits are so few that a task may intend them, so results are in doubt.
    result.state[0][i] = StateOf(ShadowKind::kPair, flags[i] | kBranch);
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
    const SmallPair pair = UnpackPair(cells[0].exact);
    uint32_t flags = cells[0].state & kFlags;
    if (!known && IsFloatKind(KindOf(cells[0].state))) flags |= kReset;
    for (int at = 0; at < 2; ++at) {
      const double value = ValueOfByte((bits >> (8 * at)) & 0xffu, side.bytes == 4);
      double exact = known ? static_cast<double>(at == 0 ? pair.low : pair.high) : value;
      if (side.relu && exact < 0) exact = 0;
      result.exact[at][i] = exact;
      result.state[at][i] = StateOf(ShadowKind::kHalf, flags);
    }
  }
}

}  // namespace

double ValueOfByte(uint32_t byte, bool is_e4m3) {
  const int digits = is_e4m3 ? 3 : 2, bias = is_e4m3 ? 7 : 15;
  const uint32_t magnitude = byte & 0x7fu;
  const auto exponent = static_cast<int>(magnitude >> digits);
  const auto fraction = static_cast<double>(magnitude & ((1u << digits) - 1));
  const double one = 1 << digits;
  double value = exponent == 0 ? std::ldexp(fraction / one, 1 - bias)
                               : std::ldexp(1 + fraction / one, exponent - bias);
  if (is_e4m3 ? magnitude == 0x7f : magnitude > 0x7c) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (!is_e4m3 && magnitude == 0x7c) {
    value = std::numeric_limits<double>::infinity();
  }
  return (byte & 0x80u) != 0 ? -value : value;
}

void SmallFloatStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  if (side.detail == 'n') return Narrow(ws, warp, op, side);
  Widen(ws, warp, op, side);
}

}  // namespace cupel::emu
