// Shadows of floating-point arithmetic and of conversions between floats: computed in double from
// the operands' shadows.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/ops/handlers.h"
#include "emu/shadow/decisions.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

/// Operands of one granule: exact values, register values, and the flags of all operands together.
struct Operands {
  double exact[3][kLanes];
  double value[3][kLanes];
  uint32_t flags[kLanes];
};

ShadowKind KindFor(Format format) {
  switch (format) {
    case Format::kF64:
      return ShadowKind::kDouble;
    case Format::kF16:
      return ShadowKind::kHalf;
    case Format::kBF16:
      return ShadowKind::kBrain;
    default:
      return ShadowKind::kSingle;
  }
}

template <class F>
[[gnu::always_inline]] inline void Each(double* to, F f) {
  for (int i = 0; i < kLanes; ++i) to[i] = f(i);
}

/// min and max of the exact values. If rounding reversed the order, the result of the values is
/// within rounding of this one. A NaN is skipped.
template <bool IsMax>
double Chosen(double a, double b, double exact_a, double exact_b) {
  if (std::isnan(a)) return exact_b;
  if (std::isnan(b)) return exact_a;
  return (IsMax ? exact_a > exact_b : exact_a < exact_b) ? exact_a : exact_b;
}

/// Sums and products, for two instruction sets. Returns false for other operations.
[[gnu::always_inline]] inline bool Simple(Exact operation, const Operands& x, double* to) {
  const double(&a)[kLanes] = x.exact[0];
  const double(&b)[kLanes] = x.exact[1];
  const double(&c)[kLanes] = x.exact[2];
  switch (operation) {
    case Exact::kMove:
      for (int i = 0; i < kLanes; ++i) to[i] = a[i];
      return true;
    case Exact::kAdd:
      for (int i = 0; i < kLanes; ++i) to[i] = a[i] + b[i];
      return true;
    case Exact::kSub:
      for (int i = 0; i < kLanes; ++i) to[i] = a[i] - b[i];
      return true;
    case Exact::kMul:
      for (int i = 0; i < kLanes; ++i) to[i] = a[i] * b[i];
      return true;
    case Exact::kFma:
      for (int i = 0; i < kLanes; ++i) to[i] = a[i] * b[i] + c[i];
      return true;
    default:
      return false;
  }
}
bool SimplePlain(Exact operation, const Operands& x, double* to) {
  return Simple(operation, x, to);
}
[[gnu::target("avx2")]] bool SimpleAvx2(Exact operation, const Operands& x, double* to) {
  return Simple(operation, x, to);
}
void Compute(Exact operation, const Operands& x, double* to) {
  static const bool has_avx2 = VectorLevel() >= 1;
  if ((has_avx2 ? SimpleAvx2 : SimplePlain)(operation, x, to)) return;
  const double(&a)[kLanes] = x.exact[0];
  const double(&b)[kLanes] = x.exact[1];
  switch (operation) {
    case Exact::kDiv:
      return Each(to, [&](int i) { return a[i] / b[i]; });
    case Exact::kSqrt:
      return Each(to, [&](int i) { return std::sqrt(a[i]); });
    case Exact::kRcp:
      return Each(to, [&](int i) { return 1 / a[i]; });
    case Exact::kRsqrt:
      return Each(to, [&](int i) { return 1 / std::sqrt(a[i]); });
    case Exact::kEx2:
      return Each(to, [&](int i) { return std::exp2(a[i]); });
    case Exact::kLg2:
      return Each(to, [&](int i) { return std::log2(a[i]); });
    case Exact::kSin:
      return Each(to, [&](int i) { return std::sin(a[i]); });
    case Exact::kCos:
      return Each(to, [&](int i) { return std::cos(a[i]); });
    case Exact::kTanh:
      return Each(to, [&](int i) { return std::tanh(a[i]); });
    case Exact::kMin:
      return Each(to,
                  [&](int i) { return Chosen<false>(x.value[0][i], x.value[1][i], a[i], b[i]); });
    case Exact::kMax:
      return Each(to,
                  [&](int i) { return Chosen<true>(x.value[0][i], x.value[1][i], a[i], b[i]); });
    case Exact::kNeg:
      return Each(to, [&](int i) { return -a[i]; });
    case Exact::kAbs:
      return Each(to, [&](int i) { return std::fabs(a[i]); });
    case Exact::kCopysign:  // the sign of a, the magnitude of b
      return Each(to, [&](int i) { return std::copysign(b[i], a[i]); });
    default:
      return;  // handled by Simple
  }
}

/// The same in a field. Decisions, signs and infinite numbers follow the registers' values.
double ComputeElement(const Field& field, Exact operation, const Operands& x, int i) {
  const double a = x.exact[0][i], b = x.exact[1][i], value = x.value[0][i];
  switch (operation) {
    case Exact::kMove:
      return a;
    case Exact::kAdd:
      return field.Add(a, b);
    case Exact::kSub:
      return field.Sub(a, b);
    case Exact::kMul:
      return field.Mul(a, b);
    case Exact::kFma:
      return field.Fma(a, b, x.exact[2][i], {value, x.value[1][i], x.value[2][i]});
    case Exact::kDiv:
      return field.Div(a, b, x.value[1][i]);
    case Exact::kRcp:
      return field.Div(field.Leaf(1), a, value);
    case Exact::kSqrt:
      return field.Sqrt(a);
    case Exact::kRsqrt:
      return field.Rsqrt(a);
    case Exact::kEx2:
      return value == -std::numeric_limits<double>::infinity() ? field.Leaf(0)
                                                               : field.Exp2(a, value);
    case Exact::kLg2:
      return field.Log2(a);
    case Exact::kSin:
      return field.Sin(a);
    case Exact::kCos:
      return field.Cos(a);
    case Exact::kTanh:
      return field.Tanh(a, value);
    case Exact::kMin:
      if (value == x.value[1][i]) return field.AnyOf(a, b);
      return std::isnan(value) || x.value[1][i] < value ? b : a;
    case Exact::kMax:
      if (value == x.value[1][i]) return field.AnyOf(a, b);
      return std::isnan(value) || x.value[1][i] > value ? b : a;
    case Exact::kNeg:
      return field.Neg(a);
    case Exact::kAbs:
      return std::signbit(value) ? field.Neg(a) : a;
    case Exact::kCopysign:
      return std::signbit(value) == std::signbit(x.value[1][i]) ? b : field.Neg(b);
  }
  return Field::Unknown();
}

/// Elements of the results. Clamps follow the results' values, which are computed in double.
void ComputeElements(const WarpShadow& ws, const Warp& warp, const Side& side, Operands& x,
                     double* to) {
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    to[i] = ComputeElement(*ws.field, side.operation, x, i);
  }
  if (side.operation == Exact::kMin || side.operation == Exact::kMax) {
    NoteDecisions(ws, warp.active, x.value[0], x.value[1]);
  }
  if (!side.saturates && !side.relu) return;
  double values[kLanes];
  std::copy(&x.value[0][0], &x.value[0][0] + 3 * kLanes, &x.exact[0][0]);
  Compute(side.operation, x, values);
  for (int i = 0; i < kLanes; ++i) {
    if (values[i] < 0) to[i] = ws.field->Leaf(0);
    if (side.saturates && values[i] > 1) to[i] = ws.field->Leaf(1);
  }
}

/// Reads operand `s` for granule `at` of the result. A packed conversion takes the granules from
/// two operands, the upper one first.
void GatherOperand(WarpShadow& ws, const Warp& warp, const Op* op, const Side& side, int s, int at,
                   Operands& x) {
  const bool pairs = side.operation == Exact::kMove && side.packed && side.sources == 2;
  const int32_t offset = op->src[pairs ? 1 - at : s];
  const Format from = s + 1 == side.sources ? side.last : side.from;
  const bool wide = from == Format::kF64 || (from == Format::kF32 && side.packed && !pairs);
  const bool by_granule = side.packed && !pairs;
  const bool chooses =
      ws.field != nullptr || side.operation == Exact::kMin || side.operation == Exact::kMax;
  Gather(ws, warp, offset, wide, from, by_granule ? at : 0, x.exact[s],
         chooses ? x.value[s] : nullptr, x.flags);
}

/// Detects sums of pairs in which one number rounds the other to an integer. In a pair that number
/// is not a known constant, so its value decides: multiples of 2^21 from 2^22 on rarely have
/// another purpose.
void FlagMagic(const WarpShadow& ws, const Side& side, Operands& x) {
  const bool sums = side.operation == Exact::kAdd || side.operation == Exact::kSub;
  if (!sums && side.operation != Exact::kFma) return;
  for (int s = sums ? 0 : 2; s < side.sources; ++s) {
    for (int i = 0; i < kLanes; ++i) {
      const double size = std::fabs(ws.field != nullptr ? x.value[s][i] : x.exact[s][i]);
      const bool magic = size >= 0x1p22 && size < 0x1p26 && std::fmod(size, 0x1p21) < 4;
      if (magic) x.flags[i] |= kReset | kTakeValue;
    }
  }
}

/// An integer's exact value, with the flags of the values it was computed from.
void GatherInteger(WarpShadow& ws, const Warp& warp, const Op* op, const Side& side, Operands& x) {
  const bool wide = side.bytes == 8;
  const SlotKind kind = wide ? SlotKind::kDouble : SlotKind::kWord;
  if (IsLive(ws, op->src[0]) || IsRaw(ws, op->src[0])) {
    GatherFlags(ws, warp, op->src[0], kind, x.flags);
  }
  const int unused = 64 - 8 * side.bytes;
  for (int i = 0; i < kLanes; ++i) {
    const uint64_t bits = SlotBits(warp, op->src[0], wide, i) << unused;
    const double value = side.is_signed ? static_cast<double>(static_cast<int64_t>(bits) >> unused)
                                        : static_cast<double>(bits >> unused);
    x.value[0][i] = value;
    x.exact[0][i] = LeafOf(ws.field, value);
  }
}

}  // namespace

void FloatStep(WarpShadow& ws, Warp& warp, const Op* op, const Side& side) {
  ShadowResult& result = *ws.result;
  const int step = side.packed && side.format == Format::kF32 ? 2 : 1;
  const int granules = side.packed ? 2 * step : 1;
  result.planes = granules;
  result.raw = 0;
  for (uint32_t& none : result.state[1]) none = 0;
  if (step == 2) {
    for (uint32_t& none : result.state[3]) none = 0;
  }
  const uint32_t magic = !side.magic ? 0 : side.cancels ? kTakeValue : kReset | kTakeValue;
  const uint32_t state = StateOf(KindFor(side.format), magic);
  for (int at = 0; at < granules; at += step) {
    Operands x;
    for (uint32_t& flags : x.flags) flags = 0;
    if (side.from == Format::kInteger) {
      GatherInteger(ws, warp, op, side, x);
    } else {
      const int sources = side.operation == Exact::kMove ? 1 : side.sources;
      for (int s = 0; s < sources; ++s) GatherOperand(ws, warp, op, side, s, at, x);
    }
    if (step == 2) FlagMagic(ws, side, x);
    double* exact = result.exact[at];
    if (ws.field != nullptr) {
      ComputeElements(ws, warp, side, x, exact);
      for (int i = 0; i < kLanes; ++i) result.state[at][i] = state | x.flags[i];
      continue;
    }
    Compute(side.operation, x, exact);
    if (side.saturates) Each(exact, [&](int i) { return std::fmin(std::fmax(exact[i], 0), 1); });
    if (side.relu) Each(exact, [&](int i) { return std::fmax(exact[i], 0); });
    for (int i = 0; i < kLanes; ++i) result.state[at][i] = state | x.flags[i];
  }
}

}  // namespace cupel::emu
