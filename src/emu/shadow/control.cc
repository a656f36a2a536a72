// Decisions: whether exact arithmetic would decide in the same way. If not, or if unknown, values
// that depend on the decision are flagged.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/shadow/decisions.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

/// Relative differences below this may come from rounding.
constexpr double kNear = 0x1p-20;

int Order(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return 2;
  return a < b ? -1 : (a > b ? 1 : 0);
}

/// Lanes in which the shadows of floats compare differently, or almost.
uint32_t DoubtfulFloats(const WarpShadow& ws, const Warp& warp, const Op* op, const Side& side) {
  if (!IsLive(ws, op->src[0]) && !IsLive(ws, op->src[1])) return 0;
  double exact[2][kLanes], value[2][kLanes];
  uint32_t flags[kLanes] = {};
  const int at = side.detail == 'h' ? 1 : 0;
  for (int s = 0; s < 2; ++s) {
    Gather(ws, warp, op->src[s], side.from == Format::kF64, side.from, at, exact[s], value[s],
           flags);
  }
  uint32_t lanes = 0;
  for (int i = 0; i < kLanes; ++i) {
    const double a = exact[0][i], b = exact[1][i];
    const bool rounded = a != value[0][i] || b != value[1][i];
    const bool near =
        rounded && a != b && std::fabs(a - b) <= kNear * std::fmax(std::fabs(a), std::fabs(b));
    const bool doubt = flags[i] != 0 || near || Order(a, b) != Order(value[0][i], value[1][i]);
    lanes |= uint32_t{doubt} << i;
  }
  return lanes;
}

/// The type of a float that a register of 32 bits holds, if the bits above 16 are zero.
DType FloatIn(const Cell* cells) {
  const ShadowKind kind = KindOf(cells[0].state);
  if (KindOf(cells[1].state) != ShadowKind::kNone) return DType::kF32;
  if (kind == ShadowKind::kHalf) return DType::kF16;
  return kind == ShadowKind::kBrain ? DType::kBF16 : DType::kF32;
}

/// Differences between numbers of this type below this share of them may come from rounding.
double NearOf(DType dtype) {
  return dtype == DType::kF16 ? 0x1p-10 : dtype == DType::kBF16 ? 0x1p-7 : kNear;
}

/// The order of the magnitudes of floats is that of their bits, with NaN above infinity.
double Magnitude(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::infinity() : std::fabs(value);
}

/// Whether two floats may compare differently in exact arithmetic if their bits are compared, with
/// or without sign: a test for NaN, a maximum by integers. Between floats of one sign, that is a
/// comparison of magnitudes; else the signs decide.
bool BitOrderInDoubt(const double (&exact)[2], const double (&value)[2], DType dtype) {
  for (int s = 0; s < 2; ++s) {
    if (std::isnan(exact[s]) != std::isnan(value[s])) return true;
    if (!std::isnan(value[s]) && std::signbit(exact[s]) != std::signbit(value[s])) return true;
  }
  if (std::signbit(value[0]) != std::signbit(value[1])) return false;
  const double a = Magnitude(exact[0]), b = Magnitude(exact[1]);
  const double larger = std::fmax(a, b);
  const bool near = a != b && std::isfinite(larger) && std::fabs(a - b) <= NearOf(dtype) * larger;
  return near || Order(a, b) != Order(Magnitude(value[0]), Magnitude(value[1]));
}

/// The same for bits that are compared as integers. For a test of equality it suffices that floats
/// among them are equal exactly when their bits are.
uint32_t DoubtfulIntegers(const WarpShadow& ws, const Warp& warp, const Op* op, const Side& side) {
  const bool wide = side.src[0] == SlotKind::kDouble;
  const uint32_t live = ws.headers[op->src[0] / 128].live | ws.headers[op->src[1] / 128].live;
  uint32_t lanes = 0;
  for (uint32_t rest = live & warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    Cell cells[2][4];
    uint64_t bits[2];
    for (int s = 0; s < 2; ++s) {
      ReadCells(ws, warp, op->src[s], wide, i, cells[s]);
      bits[s] = SlotBits(warp, op->src[s], wide, i);
    }
    DType dtype = wide ? DType::kF64 : DType::kF32;
    for (int s = 0; s < 2 && dtype == DType::kF32 && (bits[0] | bits[1]) <= 0xffff; ++s) {
      dtype = FloatIn(cells[s]);
    }
    double exact[2], value[2];
    bool all_exact = true, doubt = false;
    for (int s = 0; s < 2; ++s) {
      const Shadow shadow = DecodeShadow(nullptr, dtype, bits[s], cells[s], wide ? 4 : 2, 0);
      exact[s] = shadow.exact;
      value[s] = ValueOfBits(dtype, bits[s]);
      doubt |= shadow.flags != 0;
      all_exact &= shadow.exact == value[s];
    }
    if (!all_exact) {
      doubt |= side.detail == '=' ? (bits[0] == bits[1]) != (exact[0] == exact[1])
                                  : BitOrderInDoubt(exact, value, dtype);
    }
    lanes |= uint32_t{doubt} << i;
  }
  return lanes;
}

}  // namespace

namespace {

void NoteComparison(const WarpShadow& ws, const Warp& warp, const Op* op, const Side& side) {
  if (side.from == Format::kInteger) return;
  if (!IsLive(ws, op->src[0]) && !IsLive(ws, op->src[1])) return;
  double value[2][kLanes] = {};
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    for (int s = 0; s < 2; ++s) {
      const uint64_t bits = SlotBits(warp, op->src[s], side.from == Format::kF64, i);
      value[s][i] = ValueOfBits(DTypeOf(side.from), side.detail == 'h' ? bits >> 16 : bits);
    }
  }
  NoteDecisions(ws, warp.active, value[0], value[1]);
}

}  // namespace

void CompareStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  // Elements of a field have no order: a run with real numbers looks for doubts.
  if (ws.field != nullptr) NoteComparison(ws, warp, op, side);
  const uint32_t lanes = ws.field != nullptr             ? 0
                         : side.from == Format::kInteger ? DoubtfulIntegers(ws, warp, op, side)
                                                         : DoubtfulFloats(ws, warp, op, side);
  uint32_t& taint = ws.taints[op->dst / 4];
  taint = (taint & ~warp.active) | (lanes & warp.active);
}

void PredicateStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  uint32_t lanes = 0;
  for (int s = 0; s < side.sources; ++s) lanes |= ws.taints[op->src[s] / 4];
  uint32_t& taint = ws.taints[op->dst / 4];
  taint = (taint & ~warp.active) | (lanes & warp.active);
}

/// Votes, matches and reductions: one lane in doubt puts all lanes in doubt.
void AcrossStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  ShadowResult& result = *ws.result;
  result.planes = 0;
  result.raw = 0;
  uint32_t flags[kLanes] = {};
  uint32_t all = 0;
  for (int s = 0; s < side.sources; ++s) {
    const bool predicate = side.src[s] == SlotKind::kPredicate;
    if (predicate || IsLive(ws, op->src[s]) || IsRaw(ws, op->src[s])) {
      GatherFlags(ws, warp, op->src[s], side.src[s], flags);
    }
  }
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) all |= flags[__builtin_ctz(rest)];
  if (side.dst == SlotKind::kPredicate) {
    uint32_t& taint = ws.taints[op->dst / 4];
    taint = (taint & ~warp.active) | (all != 0 ? warp.active : 0);
  } else if (all != 0) {
    result.planes = 1;
    for (uint32_t& state : result.state[0]) state = StateOf(ShadowKind::kWord, all);
  }
}

/// Runs before a branch, a guarded instruction or an exit.
void BranchStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  if (side.src[0] == SlotKind::kPredicate) {
    DoubtLanes(ws, ws.taints[op->src[0] / 4] & warp.active);
  } else if (IsLive(ws, op->src[0])) {
    uint32_t flags[kLanes] = {};
    DoubtLanes(ws, GatherFlags(ws, warp, op->src[0], side.src[0], flags) & warp.active);
  }
}

/// mbarrier.test_wait and elect: predicates that do not depend on floats.
void WaitStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  const int32_t predicate = side.detail == 'w' ? op->dst : op->src[2];
  ws.taints[predicate / 4] &= ~warp.active;
}

void UnknownStep(WarpShadow& ws, Warp& warp, const Op*, const Side&) {
  ResetLanes(ws, warp.active);
}

}  // namespace cupel::emu
