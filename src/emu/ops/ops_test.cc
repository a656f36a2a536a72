// Compares single instructions on edge values with plain C++, at every vector level of this
// machine, with all lanes active and with some masked off.
// SPDX-License-Identifier: Apache-2.0
#include <cfloat>
#include <climits>
#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>

#include "base/random.h"
#include "emu/exec/interpreter_testing.h"
#include "emu/ops/handlers.h"

namespace cupel::emu {
namespace {

template <class T>
std::string RegisterOf() {
  if (sizeof(T) == 8) return "%rd";
  return sizeof(T) == 2 ? "%rs" : "%r";
}
template <class T>
std::string BitsOf() {
  return "b" + std::to_string(sizeof(T) * 8);
}

/// PTX of a kernel that applies `op` to arrays a, b, c element by element and stores d. Odd
/// elements take another branch if `masked`.
template <class D, class A, class B, class C>
std::string OneOp(const std::string& op, int sources, bool masked) {
  std::string text = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 pd, .param .u64 pa, .param .u64 pb, .param .u64 pc) {
.reg .pred %p<3>; .reg .b16 %rs<9>; .reg .b32 %r<19>; .reg .b64 %rd<19>;
mov.u32 %r10, %tid.x;
)";
  auto address = [&](const char* param, const std::string& reg, size_t bytes) {
    text += "ld.param.u64 " + reg + ", [" + param + "];\n";
    text += "mad.wide.u32 " + reg + ", %r10, " + std::to_string(bytes) + ", " + reg + ";\n";
  };
  address("pd", "%rd10", sizeof(D));
  address("pa", "%rd11", sizeof(A));
  address("pb", "%rd12", sizeof(B));
  address("pc", "%rd13", sizeof(C));
  std::string operands = RegisterOf<D>() + "0";
  auto load = [&](const std::string& reg, const std::string& bits, const char* from) {
    text += "ld.global." + bits + " " + reg + ", [" + from + "];\n";
    operands += ", " + reg;
  };
  load(RegisterOf<A>() + "1", BitsOf<A>(), "%rd11");
  if (sources > 1) load(RegisterOf<B>() + "2", BitsOf<B>(), "%rd12");
  if (sources > 2) load(RegisterOf<C>() + "3", BitsOf<C>(), "%rd13");
  if (masked) {
    text += "and.b32 %r11, %r10, 1;\nsetp.eq.u32 %p1, %r11, 1;\n@%p1 bra DONE;\n";
  }
  text += op + " " + operands + ";\n";
  text += "st.global." + BitsOf<D>() + " [%rd10], " + RegisterOf<D>() + "0;\n";
  text += "DONE: ret;\n}\n";
  return text;
}

template <class T>
std::vector<T> EdgeValues() {
  std::vector<T> values;
  if constexpr (std::is_floating_point_v<T>) {
    using L = std::numeric_limits<T>;
    for (T v :
         {T(0), T(1), T(0.5), T(1.5), T(2.5), T(3), T(100.7), L::min(), L::max(), L::denorm_min(),
          L::min() / 2, L::infinity(), L::epsilon(), T(1e-3), T(12345.678)}) {
      values.push_back(v);
      values.push_back(-v);
    }
    values.push_back(L::quiet_NaN());
    values.push_back(T(7));
  } else {
    using L = std::numeric_limits<T>;
    for (T v : {T(0), T(1), T(2), T(3), T(5), T(7), T(31), T(32), T(33), T(63), T(64), T(100),
                L::max(), static_cast<T>(L::max() / 2 + 1), static_cast<T>(L::max() - 1),
                static_cast<T>(0x5a5a5a5a5a5a5a5aull)}) {
      values.push_back(v);
      values.push_back(static_cast<T>(0 - v));
    }
  }
  return values;
}

/// `count` samples: pairs of edge values by rotation, then random bits.
template <class T>
std::vector<T> Samples(size_t count, size_t rotate, uint64_t seed) {
  const std::vector<T> edges = EdgeValues<T>();
  Random random(seed);
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) {
    if (i < 512) {
      values[i] = edges[(i + rotate * (i / 32)) % edges.size()];
    } else if constexpr (std::is_floating_point_v<T>) {
      values[i] = static_cast<T>((random.Unit() - 0.5) * std::exp2(random.Unit() * 40 - 20));
    } else {
      values[i] = static_cast<T>(random());
    }
  }
  return values;
}

template <class T>
bool SameBits(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) && std::isnan(b)) return true;
  }
  return std::memcmp(&a, &b, sizeof a) == 0;
}

template <class D, class A, class B, class C>
void Check(const std::string& op, int sources, const std::function<D(A, B, C)>& want,
           const std::function<bool(D, D)>& same) {
  constexpr size_t kCount = 1024;
  const auto a = Samples<A>(kCount, 0, 1), c = Samples<C>(kCount, 5, 3);
  const auto b = Samples<B>(kCount, 1, 2);
  for (int level = 0; level <= VectorLevel(); ++level) {
    for (bool masked : {false, true}) {
      Interpreter emu(OneOp<D, A, B, C>(op, sources, masked), level);
      const uint64_t dd = emu.Buffer(std::vector<D>(kCount));
      const uint64_t da = emu.Buffer(a), db = emu.Buffer(b), dc = emu.Buffer(c);
      const auto outcome = emu.Launch("k", {1}, {kCount}, dd, da, db, dc);
      ASSERT_TRUE(outcome.completed) << op << ": " << Summary(outcome);
      const auto d = emu.Read<D>(dd, kCount);
      for (size_t i = 0; i < kCount; ++i) {
        if (masked && i % 2 == 1) {
          ASSERT_TRUE(SameBits(d[i], D{})) << op << " wrote a masked lane";
          continue;
        }
        ASSERT_TRUE(same(d[i], want(a[i], b[i], c[i])))
            << op << " level " << level << " lane " << i << " of " << +a[i] << ", " << +b[i] << ", "
            << +c[i] << " gives " << +d[i] << ", not " << +want(a[i], b[i], c[i]);
      }
    }
  }
}
template <class D, class A>
void Unary(const std::string& op, const std::function<D(std::type_identity_t<A>)>& f) {
  Check<D, A, A, A>(op, 1, [&](A a, A, A) { return f(a); }, &SameBits<D>);
}
template <class D, class A, class B = A>
void Binary(const std::string& op,
            const std::function<D(std::type_identity_t<A>, std::type_identity_t<B>)>& f) {
  Check<D, A, B, B>(op, 2, [&](A a, B b, B) { return f(a, b); }, &SameBits<D>);
}
template <class D, class A, class B, class C>
void Ternary(const std::string& op, const std::function<D(A, B, C)>& f) {
  Check<D, A, B, C>(op, 3, f, &SameBits<D>);
}
/// Expects results within `relative` or `absolute` of the correct value.
void Approximate(const std::string& op, const std::function<double(float)>& f, double relative,
                 double absolute = 0) {
  Check<float, float, float, float>(
      op, 1, [&](float a, float, float) { return static_cast<float>(f(a)); },
      [&](float got, float right) {
        if (std::isnan(right) || std::isinf(right) || right == 0) {
          return SameBits(got, right) || std::abs(got) <= absolute || (right == 0 && got == 0);
        }
        if (std::abs(right) < FLT_MIN * 4) return std::abs(got - right) <= FLT_MIN * 1e-6;
        return std::abs(double{got} - right) <= std::abs(right) * relative + absolute;
      });
}

using I = int32_t;
using U = uint32_t;
using L = int64_t;
using UL = uint64_t;
float Flushed(float a) { return std::abs(a) < FLT_MIN ? std::copysign(0.0f, a) : a; }

TEST(OpsTest, IntegerArithmetic) {
  Binary<U, U>("add.s32", [](U a, U b) { return a + b; });
  Binary<U, U>("sub.s32", [](U a, U b) { return a - b; });
  Binary<U, U>("mul.lo.s32", [](U a, U b) { return a * b; });
  Binary<UL, UL>("mul.lo.s64", [](UL a, UL b) { return a * b; });
  Binary<I, I>("mul.hi.s32", [](I a, I b) { return static_cast<I>((L{a} * b) >> 32); });
  Binary<U, U>("mul.hi.u32", [](U a, U b) { return static_cast<U>((UL{a} * b) >> 32); });
  Binary<L, I>("mul.wide.s32", [](I a, I b) { return L{a} * b; });
  Binary<UL, U>("mul.wide.u32", [](U a, U b) { return UL{a} * b; });
  Ternary<L, I, I, L>("mad.wide.s32", [](I a, I b, L c) {
    return static_cast<L>(static_cast<UL>(L{a} * b) + static_cast<UL>(c));
  });
  Ternary<U, U, U, U>("mad.lo.s32", [](U a, U b, U c) { return a * b + c; });
  Binary<I, I>("min.s32", [](I a, I b) { return std::min(a, b); });
  Binary<U, U>("max.u32", [](U a, U b) { return std::max(a, b); });
  Unary<I, I>("neg.s32", [](I a) { return static_cast<I>(0u - static_cast<U>(a)); });
  Unary<I, I>("abs.s32", [](I a) { return a < 0 ? static_cast<I>(0u - static_cast<U>(a)) : a; });
  Binary<int16_t, int16_t>("add.s16",
                           [](int16_t a, int16_t b) { return static_cast<int16_t>(a + b); });
  Binary<int16_t, int16_t>("max.s16", [](int16_t a, int16_t b) { return std::max(a, b); });
}

TEST(OpsTest, IntegerDivision) {
  Binary<U, U>("div.u32", [](U a, U b) { return b == 0 ? ~0u : a / b; });
  Binary<U, U>("rem.u32", [](U a, U b) { return b == 0 ? a : a % b; });
  Binary<I, I>("div.s32", [](I a, I b) {
    return b == 0 ? -1 : (b == -1 ? static_cast<I>(0u - static_cast<U>(a)) : a / b);
  });
  Binary<I, I>("rem.s32", [](I a, I b) { return b == 0 ? a : (b == -1 ? 0 : a % b); });
  Binary<L, L>("div.s64", [](L a, L b) {
    return b == 0 ? -1 : (b == -1 ? static_cast<L>(UL{0} - static_cast<UL>(a)) : a / b);
  });
  Binary<UL, UL>("rem.u64", [](UL a, UL b) { return b == 0 ? a : a % b; });
}

TEST(OpsTest, ShiftsClamp) {
  Binary<U, U>("shl.b32", [](U a, U n) { return n > 31 ? 0 : a << n; });
  Binary<U, U>("shr.u32", [](U a, U n) { return n > 31 ? 0 : a >> n; });
  Binary<I, I, U>("shr.s32", [](I a, U n) { return a >> std::min(n, 31u); });
  Binary<UL, UL, U>("shl.b64", [](UL a, U n) { return n > 63 ? 0 : a << n; });
  Binary<L, L, U>("shr.s64", [](L a, U n) { return a >> std::min(n, 63u); });
  Binary<uint16_t, uint16_t, U>(
      "shl.b16", [](uint16_t a, U n) { return static_cast<uint16_t>(n > 15 ? 0 : a << n); });
  Ternary<U, U, U, U>("shf.l.wrap.b32", [](U a, U b, U n) {
    return static_cast<U>(((UL{b} << 32 | a) << (n & 31)) >> 32);
  });
  Ternary<U, U, U, U>("shf.r.clamp.b32", [](U a, U b, U n) {
    return static_cast<U>((UL{b} << 32 | a) >> std::min(n, 32u));
  });
}

TEST(OpsTest, Bits) {
  Binary<U, U>("and.b32", [](U a, U b) { return a & b; });
  Binary<UL, UL>("xor.b64", [](UL a, UL b) { return a ^ b; });
  Unary<U, U>("not.b32", [](U a) { return ~a; });
  Unary<U, U>("popc.b32", [](U a) { return static_cast<U>(__builtin_popcount(a)); });
  Unary<U, UL>("popc.b64", [](UL a) { return static_cast<U>(__builtin_popcountll(a)); });
  Unary<U, U>("clz.b32", [](U a) { return a == 0 ? 32u : static_cast<U>(__builtin_clz(a)); });
  Unary<U, UL>("clz.b64", [](UL a) { return a == 0 ? 64u : static_cast<U>(__builtin_clzll(a)); });
  Unary<U, I>("bfind.s32", [](I a) {
    const U v = a < 0 ? ~static_cast<U>(a) : static_cast<U>(a);
    return v == 0 ? ~0u : static_cast<U>(31 - __builtin_clz(v));
  });
  Ternary<U, U, U, U>("bfe.u32", [](U a, U n, U l) {
    n &= 255, l &= 255;
    U r = 0;
    for (U i = 0; i < 32 && i < l; ++i) r |= (n + i < 32 ? (a >> (n + i)) & 1 : 0) << i;
    return r;
  });
  Ternary<I, I, U, U>("bfe.s32", [](I a, U n, U l) {
    n &= 255, l &= 255;
    if (l == 0) return 0;
    const U sign = (static_cast<U>(a) >> std::min(n + l - 1, 31u)) & 1;
    U r = 0;
    for (U i = 0; i < 32; ++i)
      r |= (i < l && n + i < 32 ? (static_cast<U>(a) >> (n + i)) & 1 : sign) << i;
    return static_cast<I>(r);
  });
  Ternary<U, U, U, U>("prmt.b32", [](U a, U b, U c) {
    U r = 0;
    for (int i = 0; i < 4; ++i) {
      const U nibble = (c >> (4 * i)) & 15;
      const U byte = static_cast<U>((UL{b} << 32 | a) >> (8 * (nibble & 7))) & 255;
      r |= ((nibble & 8) != 0 ? ((byte & 128) != 0 ? 255 : 0) : byte) << (8 * i);
    }
    return r;
  });
}

TEST(OpsTest, FloatArithmeticIsExact) {
  Binary<float, float>("add.f32", [](float a, float b) { return a + b; });
  Binary<float, float>("mul.f32", [](float a, float b) { return a * b; });
  Binary<float, float>("sub.f32", [](float a, float b) { return a - b; });
  Binary<float, float>("div.rn.f32", [](float a, float b) { return a / b; });
  Unary<float, float>("sqrt.rn.f32", [](float a) { return std::sqrt(a); });
  Unary<float, float>("rcp.rn.f32", [](float a) { return 1 / a; });
  Ternary<float, float, float, float>("fma.rn.f32",
                                      [](float a, float b, float c) { return std::fma(a, b, c); });
  Ternary<double, double, double, double>(
      "fma.rn.f64", [](double a, double b, double c) { return std::fma(a, b, c); });
  Binary<double, double>("div.rn.f64", [](double a, double b) { return a / b; });
  Binary<float, float>("min.f32", [](float a, float b) {
    if (a == 0 && b == 0) return std::signbit(a) ? a : b;
    return std::fmin(a, b);
  });
  Binary<float, float>("max.NaN.f32", [](float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return NAN;
    if (a == 0 && b == 0) return std::signbit(a) ? b : a;
    return std::fmax(a, b);
  });
  Binary<float, float>("add.sat.f32", [](float a, float b) {
    const float s = a + b;
    return s > 0 ? std::min(s, 1.0f) : 0.0f;
  });
}

TEST(OpsTest, FlushToZeroIsPerInstruction) {
  Binary<float, float>("add.ftz.f32",
                       [](float a, float b) { return Flushed(Flushed(a) + Flushed(b)); });
  Binary<float, float>("mul.ftz.f32",
                       [](float a, float b) { return Flushed(Flushed(a) * Flushed(b)); });
  Ternary<float, float, float, float>("fma.rn.ftz.f32", [](float a, float b, float c) {
    return Flushed(std::fma(Flushed(a), Flushed(b), Flushed(c)));
  });
  Unary<float, float>("neg.ftz.f32", [](float a) { return -Flushed(a); });
  Unary<float, float>("abs.ftz.f32", [](float a) { return std::abs(Flushed(a)); });
  Unary<double, float>("cvt.ftz.f64.f32", [](float a) { return double{Flushed(a)}; });
  Unary<double, float>("cvt.f64.f32", [](float a) { return double{a}; });
}

TEST(OpsTest, DirectedRounding) {
  auto toward_zero = [](double exact) {
    const auto f = static_cast<float>(exact);
    return std::abs(double{f}) > std::abs(exact) ? std::nextafter(f, 0.0f) : f;
  };
  // Products of floats are exact in double.
  Binary<float, float>("mul.rz.f32", [&](float a, float b) {
    const double exact = double{a} * b;
    if (!std::isfinite(exact) || std::abs(exact) < FLT_MIN) {
      if (std::isfinite(exact)) {
        const double steps = std::trunc(std::abs(exact) / std::numeric_limits<float>::denorm_min());
        return static_cast<float>(
            std::copysign(steps * std::numeric_limits<float>::denorm_min(), exact));
      }
      return static_cast<float>(exact);
    }
    return std::abs(exact) > FLT_MAX
               ? std::copysign(FLT_MAX, static_cast<float>(exact > 0 ? 1 : -1))
               : toward_zero(exact);
  });
  Unary<float, I>("cvt.rz.f32.s32", [&](I a) { return toward_zero(a); });
  Unary<float, I>("cvt.rp.f32.s32", [](I a) {
    const auto f = static_cast<float>(a);
    return double{f} < a ? std::nextafter(f, INFINITY) : f;
  });
}

TEST(OpsTest, Conversions) {
  auto to_int = [](double a) {
    return std::isnan(a) ? 0 : static_cast<I>(std::min(std::max(a, -2147483648.0), 2147483647.0));
  };
  Unary<I, float>("cvt.rzi.s32.f32", [&](float a) { return to_int(std::trunc(double{a})); });
  Unary<I, float>("cvt.rni.s32.f32", [&](float a) { return to_int(std::nearbyint(double{a})); });
  Unary<I, float>("cvt.rmi.s32.f32", [&](float a) { return to_int(std::floor(double{a})); });
  // If either side has 64 bits, NaN converts to only the top bit set.
  Unary<I, double>("cvt.rpi.s32.f64",
                   [&](double a) { return std::isnan(a) ? INT_MIN : to_int(std::ceil(a)); });
  Unary<U, float>("cvt.rzi.u32.f32", [](float a) {
    return std::isnan(a) || a <= 0 ? 0u : (a >= 4294967296.0f ? ~0u : static_cast<U>(a));
  });
  Unary<L, float>("cvt.rzi.s64.f32", [](float a) {
    if (std::isnan(a)) return L{LONG_MIN};
    return a >= 9.223372e18f ? L{LONG_MAX} : (a <= -9.223372e18f ? L{LONG_MIN} : static_cast<L>(a));
  });
  Unary<UL, double>("cvt.rzi.u64.f64", [](double a) {
    if (std::isnan(a)) return UL{1} << 63;
    if (a <= 0) return UL{0};
    return a >= 18446744073709551616.0 ? ~UL{0} : static_cast<UL>(a);
  });
  Unary<float, float>("cvt.rni.f32.f32", [](float a) { return std::nearbyint(a); });
  Unary<float, float>("cvt.sat.f32.f32", [](float a) { return a > 0 ? std::min(a, 1.0f) : 0.0f; });
  Unary<float, double>("cvt.rn.f32.f64", [](double a) { return static_cast<float>(a); });
  Unary<float, U>("cvt.rn.f32.u32", [](U a) { return static_cast<float>(a); });
  Unary<double, UL>("cvt.rn.f64.u64", [](UL a) { return static_cast<double>(a); });
  Unary<L, I>("cvt.s64.s32", [](I a) { return L{a}; });
  Unary<UL, U>("cvt.u64.u32", [](U a) { return UL{a}; });
  Unary<I, I>("cvt.s32.s8", [](I a) { return I{static_cast<int8_t>(a)}; });
  Unary<U, I>("cvt.sat.u8.s32", [](I a) { return static_cast<U>(std::clamp(a, 0, 255)); });
}

float HalfValue(uint16_t h) {
  const int exponent = (h >> 10) & 31, mantissa = h & 1023;
  const double sign = (h & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? NAN : static_cast<float>(sign * INFINITY);
  const double v =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>(sign * v);
}
/// Searches all halves: slow, but certainly rounds to nearest even.
uint16_t NearestHalf(double v) {
  if (std::isnan(v)) return 0x7fff;
  const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  const double a = std::abs(v);
  if (a >= 65520) return sign | 0x7c00;
  uint16_t low = 0, high = 0x7c00;
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (HalfValue(middle) <= a ? low : high) = middle;
  }
  const double down = a - HalfValue(low);
  const double up = (high == 0x7c00 ? 65536.0 : double{HalfValue(high)}) - a;
  return sign | (down < up || (down == up && low % 2 == 0) ? low : high);
}

TEST(OpsTest, Halves) {
  auto same = [](uint16_t a, uint16_t b) {
    return (a & 0x7fff) > 0x7c00 && (b & 0x7fff) > 0x7c00 ? true : a == b;
  };
  using H = uint16_t;
  Unary<float, H>("cvt.f32.f16", [](H a) { return HalfValue(a); });
  Check<H, float, float, float>(
      "cvt.rn.f16.f32", 1, [](float a, float, float) { return NearestHalf(a); }, same);
  Check<H, H, H, H>(
      "add.f16", 2, [](H a, H b, H) { return NearestHalf(double{HalfValue(a)} + HalfValue(b)); },
      same);
  Check<H, H, H, H>(
      "mul.f16", 2, [](H a, H b, H) { return NearestHalf(double{HalfValue(a)} * HalfValue(b)); },
      same);
  Check<H, H, H, H>(
      "fma.rn.f16", 3,
      [](H a, H b, H c) { return NearestHalf(double{HalfValue(a)} * HalfValue(b) + HalfValue(c)); },
      same);
  Unary<U, float>("cvt.rna.tf32.f32", [](float a) {
    const U bits = std::bit_cast<U>(a);
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
  });
}

TEST(OpsTest, ApproximationsStayWithinBounds) {
  const double ulp = std::exp2(-22);
  Approximate("ex2.approx.f32", [](float a) { return std::exp2(double{a}); }, ulp);
  Approximate("lg2.approx.f32", [](float a) { return std::log2(double{a}); }, ulp, ulp);
  Approximate("rcp.approx.f32", [](float a) { return 1.0 / a; }, ulp / 2);
  Approximate("rsqrt.approx.f32", [](float a) { return 1.0 / std::sqrt(double{a}); }, ulp / 1.8);
  Approximate("sqrt.approx.f32", [](float a) { return std::sqrt(double{a}); }, ulp / 2);
  Approximate("tanh.approx.f32", [](float a) { return std::tanh(double{a}); }, std::exp2(-11));
  auto small = [](double (*f)(double)) {
    return [f](float a) { return std::abs(a) < 1e6f || !std::isfinite(a) ? f(double{a}) : 0.0; };
  };
  Approximate("sin.approx.f32", small(&std::sin), 0, 2.0);
  Check<float, float, float, float>(
      "cos.approx.f32", 1,
      [](float a, float, float) { return static_cast<float>(std::cos(double{a})); },
      [](float got, float right) {
        return (std::isnan(got) && std::isnan(right)) || std::abs(got - right) < std::exp2(-20) ||
               std::abs(got) <= 1;
      });
}

/// Comparisons use selp, which tests predicates too.
template <class T>
void Compare(const std::string& cmp, const std::string& type, const std::function<bool(T, T)>& f) {
  const std::string op = "setp." + cmp + "." + type + " %p2, " + RegisterOf<T>() + "1, " +
                         RegisterOf<T>() +
                         "2; selp.u32 %r0, 1, 2, %p2; add.u32 %r0, %r0, 0; mov.u32";
  // `mov.u32 %r0, a, b` would not parse, so another instruction takes the operands.
  std::string program = OneOp<U, T, T, T>("@@", 2, false);
  const std::string operands = "@@ %r0, " + RegisterOf<T>() + "1, " + RegisterOf<T>() + "2;";
  const size_t at = program.find(operands);
  ASSERT_NE(at, std::string::npos);
  program.replace(at, operands.size(), op.substr(0, op.rfind("; mov")) + ";");
  const auto a = Samples<T>(1024, 0, 1), b = Samples<T>(1024, 1, 2);
  Interpreter emu(program);
  const uint64_t dd = emu.Buffer(std::vector<U>(1024)), da = emu.Buffer(a), db = emu.Buffer(b);
  const auto outcome = emu.Launch("k", {1}, {1024}, dd, da, db, db);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  const auto d = emu.Read<U>(dd, 1024);
  for (size_t i = 0; i < 1024; ++i)
    ASSERT_EQ(d[i], f(a[i], b[i]) ? 1u : 2u) << cmp << type << +a[i] << " " << +b[i];
}

TEST(OpsTest, Comparisons) {
  Compare<I>("lt", "s32", [](I a, I b) { return a < b; });
  Compare<U>("ge", "u32", [](U a, U b) { return a >= b; });
  Compare<L>("gt", "s64", [](L a, L b) { return a > b; });
  Compare<float>("lt", "f32", [](float a, float b) { return a < b; });
  Compare<float>("ltu", "f32", [](float a, float b) { return !(a >= b); });
  Compare<float>("ne", "f32", [](float a, float b) { return a < b || a > b; });
  Compare<float>("neu", "f32", [](float a, float b) { return !(a == b); });
  Compare<float>("nan", "f32", [](float a, float b) { return std::isnan(a) || std::isnan(b); });
  Compare<float>("eq.ftz", "f32", [](float a, float b) { return Flushed(a) == Flushed(b); });
  Compare<double>("le", "f64", [](double a, double b) { return a <= b; });
}

}  // namespace
}  // namespace cupel::emu
