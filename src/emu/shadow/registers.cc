// Shadows of registers: reads them, and ties them to written values.
// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/ops/handlers.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

/// Widens subnormal numbers too, even if the processor flushes them, because flushing is rounding.
[[gnu::always_inline]] inline double Widened(uint32_t word) {
  const uint32_t magnitude = word & 0x7fffffffu;
  const double tiny = static_cast<double>(static_cast<int32_t>(magnitude)) * 0x1p-149;
  const double signed_tiny = (word >> 31) != 0 ? -tiny : tiny;
  const double usual = std::bit_cast<float>(word);
  return magnitude < 0x00800000u ? signed_tiny : usual;
}

double ValueAt(Format format, uint64_t bits, int at) {
  const uint64_t own = bits >> (16 * at);
  if (format == Format::kF32) return Widened(static_cast<uint32_t>(own));
  if (format == Format::kF64) return std::bit_cast<double>(bits);
  return ValueOfBits(DTypeOf(format), own & 0xffffu);
}

/// float32 in words, the common case. Returns the lanes that need further checks.
[[gnu::always_inline]] inline uint32_t SinglesOf(const Plane& plane, uint32_t live,
                                                 const uint32_t* words, double* exact,
                                                 uint32_t* flags) {
  uint32_t holds[kLanes];
  uint32_t odd = 0;
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t state = plane.state[i];
    const bool same = KindOf(state) == ShadowKind::kSingle && plane.bits[i] == words[i];
    holds[i] = same ? (live >> i) & 1u : 0;
    flags[i] |= holds[i] != 0 ? state & kFlags : 0;
  }
  for (int i = 0; i < kLanes; ++i) {
    const double value = Widened(words[i]);
    exact[i] = holds[i] != 0 ? plane.exact[i] : value;
  }
  for (int i = 0; i < kLanes; ++i) odd |= (holds[i] ^ 1u) << i;
  return odd & live;
}
[[gnu::always_inline]] inline void ValuesOf(const uint32_t* words, double* value) {
  for (int i = 0; i < kLanes; ++i) value[i] = Widened(words[i]);
}

// The same for two instruction sets; the choice is made once.
uint32_t SinglesPlain(const Plane& plane, uint32_t live, const uint32_t* words, double* exact,
                      uint32_t* flags) {
  return SinglesOf(plane, live, words, exact, flags);
}
[[gnu::target("avx2")]] uint32_t SinglesAvx2(const Plane& plane, uint32_t live,
                                             const uint32_t* words, double* exact,
                                             uint32_t* flags) {
  return SinglesOf(plane, live, words, exact, flags);
}
void ValuesPlain(const uint32_t* words, double* value) { ValuesOf(words, value); }
[[gnu::target("avx2")]] void ValuesAvx2(const uint32_t* words, double* value) {
  ValuesOf(words, value);
}
bool HasAvx2() {
  static const bool has = VectorLevel() >= 1;
  return has;
}
void Values(const uint32_t* words, double* value) {
  (HasAvx2() ? ValuesAvx2 : ValuesPlain)(words, value);
}

void GatherSlowly(const WarpShadow& ws, const Warp& warp, int32_t offset, bool wide, Format format,
                  int at, uint32_t lanes, double* exact, uint32_t* flags) {
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    Cell cells[4];
    ReadCells(ws, warp, offset, wide, i, cells);
    const Shadow shadow = DecodeShadow(ws.field, DTypeOf(format), SlotBits(warp, offset, wide, i),
                                       cells, wide ? 4 : 2, at);
    exact[i] = shadow.exact;
    flags[i] |= shadow.flags;
  }
}

/// A constant that is no number of the reference counts as a reset, so that its place is known.
uint32_t FlagsOfLeaf(double element) {
  const uint32_t flags = engine::UnpackElement(std::bit_cast<uint64_t>(element)).flags;
  return (flags & engine::kFieldConstant) != 0 ? kReset : 0;
}

/// Gather in a field. Numbers without a shadow are often the same in all lanes: constants.
void GatherElements(const WarpShadow& ws, const Warp& warp, int32_t offset, bool wide,
                    Format format, int at, uint32_t live, double* exact, double* value,
                    uint32_t* flags) {
  double last = 0, element = 0;
  if (format == Format::kF32 && !wide && at == 0) {  // the common case
    const Plane& plane = ws.planes[offset / 64];
    const auto* words = At<const uint32_t>(warp, offset);
    if (value != nullptr) Values(words, value);
    uint32_t whole = 0;
    for (int i = 0; i < kLanes; ++i) {
      const bool same = KindOf(plane.state[i]) == ShadowKind::kSingle && plane.bits[i] == words[i];
      whole |= uint32_t{same} << i;
    }
    whole &= live;
    for (int i = 0; i < kLanes; ++i) {
      const bool is_whole = ((whole >> i) & 1u) != 0;
      exact[i] = is_whole ? plane.exact[i] : 0;
      flags[i] |= is_whole ? plane.state[i] & kFlags : 0;
    }
    if ((warp.active & ~whole) == 0) return;
    live &= ~whole;
    for (uint32_t rest = warp.active & ~whole & ~live; rest != 0; rest &= rest - 1) {
      const int i = __builtin_ctz(rest);
      const double v = Widened(words[i]);
      if (std::bit_cast<uint64_t>(v) != std::bit_cast<uint64_t>(last)) {
        last = v;
        element = ws.field->Leaf(v);
      }
      exact[i] = element;
      flags[i] |= FlagsOfLeaf(element);
    }
    return GatherSlowly(ws, warp, offset, wide, format, at, live & warp.active, exact, flags);
  }
  for (int i = 0; i < kLanes; ++i) {
    const double v = ValueAt(format, SlotBits(warp, offset, wide, i), at);
    if (value != nullptr) value[i] = v;
    exact[i] = 0;
    if (((live >> i) & 1u) != 0 || ((warp.active >> i) & 1u) == 0) continue;
    if (std::bit_cast<uint64_t>(v) != std::bit_cast<uint64_t>(last)) {
      last = v;
      element = ws.field->Leaf(v);
    }
    exact[i] = element;
    flags[i] |= FlagsOfLeaf(element);
  }
  GatherSlowly(ws, warp, offset, wide, format, at, live & warp.active, exact, flags);
}

}  // namespace

DType DTypeOf(Format format) {
  switch (format) {
    case Format::kF64:
      return DType::kF64;
    case Format::kF16:
      return DType::kF16;
    case Format::kBF16:
      return DType::kBF16;
    default:
      return DType::kF32;
  }
}

void ReadCells(const WarpShadow& ws, const Warp& warp, int32_t offset, bool wide, int lane,
               Cell (&cells)[4]) {
  const int granules = wide ? 4 : 2;
  const SlotHeader& header = ws.headers[offset / 128];
  if (((header.live >> lane) & 1u) == 0) {
    for (Cell& cell : cells) cell = {};
    if (((header.raw >> lane) & 1u) == 0) return;
    const ShadowKind kind = wide ? ShadowKind::kDouble : ShadowKind::kSingle;
    const uint64_t bits = SlotBits(warp, offset, wide, lane);
    const double value = ValueAt(wide ? Format::kF64 : Format::kF32, bits, 0);
    cells[0] = {LeafOf(ws.field, value), TiedBits(kind, bits, 0), StateOf(kind)};
    return;
  }
  for (int g = 0; g < granules; ++g) {
    const Plane& plane = ws.planes[offset / 64 + g];
    cells[g] = {plane.exact[lane], plane.bits[lane], plane.state[lane]};
  }
  DropStale(SlotBits(warp, offset, wide, lane), cells, granules);
}

void Gather(const WarpShadow& ws, const Warp& warp, int32_t offset, bool wide, Format format,
            int at, double* exact, double* value, uint32_t* flags) {
  const uint32_t live = ws.headers[offset / 128].live;
  if (ws.field != nullptr) {
    GatherElements(ws, warp, offset, wide, format, at, live, exact, value, flags);
    return;
  }
  if (format == Format::kF32 && !wide && at == 0) {
    const auto* words = At<const uint32_t>(warp, offset);
    if (value != nullptr) Values(words, value);
    if (live == 0) return Values(words, exact);
    const uint32_t odd =
        (HasAvx2() ? SinglesAvx2 : SinglesPlain)(ws.planes[offset / 64], live, words, exact, flags);
    if (odd != 0) GatherSlowly(ws, warp, offset, wide, format, at, odd, exact, flags);
    return;
  }
  for (int i = 0; i < kLanes; ++i) {
    const double v = ValueAt(format, SlotBits(warp, offset, wide, i), at);
    if (value != nullptr) value[i] = v;
    exact[i] = v;
  }
  if (live != 0) GatherSlowly(ws, warp, offset, wide, format, at, live, exact, flags);
}

uint32_t GatherFlags(const WarpShadow& ws, const Warp& warp, int32_t offset, SlotKind kind,
                     uint32_t* flags) {
  uint32_t lanes = 0;
  if (kind == SlotKind::kPredicate) {
    lanes = ws.taints[offset / 4];
    for (int i = 0; i < kLanes; ++i) flags[i] |= ((lanes >> i) & 1u) != 0 ? kDecision : 0;
    return lanes;
  }
  const bool wide = kind == SlotKind::kDouble;
  const SlotHeader& header = ws.headers[offset / 128];
  for (uint32_t rest = header.live; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    Cell cells[4];
    ReadCells(ws, warp, offset, wide, i, cells);
    for (int g = 0; g < (wide ? 4 : 2); ++g) {
      const ShadowKind found = KindOf(cells[g].state);
      if (found == ShadowKind::kNone) continue;
      flags[i] |= (cells[g].state & kFlags) | (IsFloatKind(found) ? kReset : 0);
    }
    if (flags[i] != 0) lanes |= 1u << i;
  }
  for (uint32_t rest = header.raw; rest != 0; rest &= rest - 1) {
    flags[__builtin_ctz(rest)] |= kReset;
  }
  return lanes | header.raw;
}

namespace {

/// The common case: float32 in all lanes, none of them flagged by its history. Returns false in
/// other cases.
bool CommitSingles(WarpShadow& ws, const Warp& warp, int32_t offset, const ShadowResult& result) {
  Plane& plane = ws.planes[offset / 64];
  const auto* words = At<const uint32_t>(warp, offset);
  uint32_t odd = 0;
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t state = result.state[0][i];
    const bool unnamed = (state & kCauses) != 0 && (state & kSites) == 0;
    odd |= ((state & ~kFlags) ^ static_cast<uint32_t>(ShadowKind::kSingle)) | uint32_t{unnamed};
  }
  if (odd != 0) return false;
  for (int i = 0; i < kLanes; ++i) plane.exact[i] = result.exact[0][i];
  for (int i = 0; i < kLanes; ++i) plane.bits[i] = words[i];
  for (int i = 0; i < kLanes; ++i) plane.state[i] = result.state[0][i];
  Plane& upper = ws.planes[offset / 64 + 1];
  for (uint32_t& state : upper.state) state = 0;
  ws.headers[offset / 128] = {kFullMask, 0};
  return true;
}

}  // namespace

void CommitShadow(WarpShadow& ws, const Warp& warp, int32_t offset, bool wide) {
  ShadowResult& result = *ws.result;
  const uint32_t active = warp.active;
  if (active == kFullMask && !wide && result.planes == 1 && (ws.reset | ws.branch) == 0 &&
      CommitSingles(ws, warp, offset, result)) {
    return;
  }
  const int granules = wide ? 4 : 2;
  uint32_t live = 0;
  const uint32_t history = (ws.reset | ws.branch) & active;
  for (int g = 0; g < granules; ++g) {
    Plane& plane = ws.planes[offset / 64 + g];
    if (g >= result.planes) {
      for (int i = 0; i < kLanes; ++i) {
        if (((active >> i) & 1u) != 0) plane.state[i] = 0;
      }
      continue;
    }
    for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
      const int i = __builtin_ctz(rest);
      const uint32_t state = Stamped(ws, result.state[g][i]);
      plane.state[i] = state & ~kTakeValue;
      const ShadowKind kind = KindOf(state);
      if (kind == ShadowKind::kNone) continue;
      const uint64_t bits = SlotBits(warp, offset, wide, i);
      plane.bits[i] = TiedBits(kind, bits, g);
      plane.exact[i] = result.exact[g][i];
      if ((state & kTakeValue) != 0) {
        const Format format = kind == ShadowKind::kDouble  ? Format::kF64
                              : kind == ShadowKind::kHalf  ? Format::kF16
                              : kind == ShadowKind::kBrain ? Format::kBF16
                                                           : Format::kF32;
        plane.exact[i] = LeafOf(ws.field, ValueAt(format, bits, g));
      }
      live |= 1u << i;
    }
  }
  // Lanes that may take another path in exact arithmetic flag everything that they write.
  for (uint32_t rest = history; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const uint32_t flags = HistoryFlags(ws, i);
    if (((live >> i) & 1u) == 0) {
      const ShadowKind kind = wide ? ShadowKind::kLong : ShadowKind::kWord;
      Plane& plane = ws.planes[offset / 64];
      plane.state[i] = StateOf(kind, flags);
      plane.bits[i] = TiedBits(kind, SlotBits(warp, offset, wide, i), 0);
      live |= 1u << i;
      continue;
    }
    for (int g = 0; g < granules; ++g) {
      uint32_t& state = ws.planes[offset / 64 + g].state[i];
      if (state != 0) state |= flags;
    }
  }
  SlotHeader& header = ws.headers[offset / 128];
  header.live = (header.live & ~active) | live;
  header.raw = (header.raw & ~active) | (result.raw & active);
  result.raw = 0;
}

void ClearShadow(WarpShadow& ws, const Warp& warp, int32_t offset, bool wide) {
  if (((ws.reset | ws.branch) & warp.active) != 0) {
    ws.result->planes = 0;
    ws.result->raw = 0;
    CommitShadow(ws, warp, offset, wide);
    return;
  }
  SlotHeader& header = ws.headers[offset / 128];
  header.live &= ~warp.active;
  header.raw &= ~warp.active;
}

}  // namespace cupel::emu
