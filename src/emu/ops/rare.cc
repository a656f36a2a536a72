// Rarely used arithmetic, compiled once and without vector instructions: 4-bit and 6-bit formats,
// packed integers, flushed halves, directed roundings to halves, and similar.
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "emu/core/handler_table.h"
#include "emu/core/kernel.h"
#include "emu/core/op.h"
#include "emu/ops/handlers.h"

namespace cupel::emu {
namespace {
namespace rare {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"  // used only by the other handlers
// clang-format off
#include "emu/ops/lanes.inc"
#include "emu/ops/int.inc"
#include "emu/ops/float.inc"
#include "emu/ops/half.inc"
#include "emu/ops/compare.inc"
#include "emu/ops/convert.inc"
#include "emu/ops/pairs.inc"
#include "emu/ops/small_floats.inc"
// clang-format on
#pragma GCC diagnostic pop

void RegisterSmallIntegers(HandlerTable& t) {
  using U = uint32_t;
  using I = int32_t;
  for (const char* wrap : {"clamp", "wrap"}) {
    Key k;
    auto width = [](bool wraps, U n) { return wraps ? n & 31u : (n > 32 ? 32u : n); };
    using Width = decltype(width);
    auto kept = [](U a, U n) { return n == 0 ? 0u : (n >= 32 ? a : a & ((1u << n) - 1)); };
    using Kept = decltype(kept);
    auto extended = [](U a, U n) {
      const U field = Kept{}(a, n);
      return n == 0 || n >= 32 || ((field >> (n - 1)) & 1u) == 0 ? field : field | ~0u << n;
    };
    using Extended = decltype(extended);
    const bool wraps = wrap[0] == 'w';
    t.Add(k("szext.", wrap, ".u32"),
          wraps ? Make<U, U, U>([](U a, U n) { return Kept{}(a, Width{}(true, n)); })
                : Make<U, U, U>([](U a, U n) { return Kept{}(a, Width{}(false, n)); }));
    t.Add(k("szext.", wrap, ".s32"),
          wraps ? Make<U, U, U>([](U a, U n) { return Extended{}(a, Width{}(true, n)); })
                : Make<U, U, U>([](U a, U n) { return Extended{}(a, Width{}(false, n)); }));
  }
  auto clamp = [](int64_t v) {
    return static_cast<I>(v > 0x7fffffff ? 0x7fffffff
                                         : (v < -int64_t{0x80000000} ? -int64_t{0x80000000} : v));
  };
  using Clamp = decltype(clamp);
  t.Add("add.sat.s32", Make<I, I, I>([](I a, I b) { return Clamp{}(int64_t{a} + b); }));
  t.Add("sub.sat.s32", Make<I, I, I>([](I a, I b) { return Clamp{}(int64_t{a} - b); }));
  t.Add("mad.hi.sat.s32",
        Make<I, I, I, I>([](I a, I b, I c) { return Clamp{}(((int64_t{a} * b) >> 32) + c); }));
  t.Add("min.relu.s32",
        Make<I, I, I>([](I a, I b) { return a < b ? (a > 0 ? a : 0) : (b > 0 ? b : 0); }));
  t.Add("max.relu.s32",
        Make<I, I, I>([](I a, I b) { return a > b ? (a > 0 ? a : 0) : (b > 0 ? b : 0); }));
  auto low24 = [](I a) { return int64_t{static_cast<I>(static_cast<U>(a) << 8) >> 8}; };
  using Low24 = decltype(low24);
  t.Add("mul24.lo.s32",
        Make<I, I, I>([](I a, I b) { return static_cast<I>(Low24{}(a)*Low24{}(b)); }));
  t.Add("mul24.hi.s32",
        Make<I, I, I>([](I a, I b) { return static_cast<I>((Low24{}(a)*Low24{}(b)) >> 16); }));
  t.Add("mul24.lo.u32", Make<U, U, U>([](U a, U b) { return (a & 0xffffffu) * (b & 0xffffffu); }));
  t.Add("mul24.hi.u32", Make<U, U, U>([](U a, U b) {
          return static_cast<U>((uint64_t{a & 0xffffffu} * (b & 0xffffffu)) >> 16);
        }));
  t.Add("mad24.lo.s32",
        Make<I, I, I, I>([](I a, I b, I c) { return static_cast<I>(Low24{}(a)*Low24{}(b) + c); }));
  t.Add("mad24.lo.u32",
        Make<U, U, U, U>([](U a, U b, U c) { return (a & 0xffffffu) * (b & 0xffffffu) + c; }));
  t.Add("slct.b32.f32", Make<U, U, U, float>([](U a, U b, float c) { return c >= 0 ? a : b; }));
  t.Add("slct.u32.f32", Make<U, U, U, float>([](U a, U b, float c) { return c >= 0 ? a : b; }));
  t.Add("slct.s32.f32", Make<U, U, U, float>([](U a, U b, float c) { return c >= 0 ? a : b; }));
  t.Add("slct.f32.f32", Make<U, U, U, float>([](U a, U b, float c) { return c >= 0 ? a : b; }));
}

/// Multiplies two 16-bit numbers of `a` with two bytes of `b`, from its lower or upper half.
template <bool SignA, bool SignB, int High>
struct DotPairs {
  int32_t operator()(uint32_t a, uint32_t b, int32_t c) const {
    auto sum = static_cast<uint32_t>(c);
    for (int i = 0; i < 2; ++i) {
      const uint32_t x = (a >> (16 * i)) & 0xffffu;
      const uint32_t y = (b >> (8 * i + 16 * High)) & 0xffu;
      const int32_t sx = SignA ? static_cast<int16_t>(x) : static_cast<int32_t>(x);
      const int32_t sy = SignB ? static_cast<int8_t>(y) : static_cast<int32_t>(y);
      sum += static_cast<uint32_t>(sx * sy);
    }
    return static_cast<int32_t>(sum);
  }
};
template <int High>
void RegisterDotPairs(HandlerTable& t, const char* half) {
  using U = uint32_t;
  using I = int32_t;
  Key k;
  t.Add(k("dp2a.", half, ".s32.s32"), Make<I, U, U, I>(DotPairs<true, true, High>{}));
  t.Add(k("dp2a.", half, ".s32.u32"), Make<I, U, U, I>(DotPairs<true, false, High>{}));
  t.Add(k("dp2a.", half, ".u32.s32"), Make<I, U, U, I>(DotPairs<false, true, High>{}));
  t.Add(k("dp2a.", half, ".u32.u32"), Make<I, U, U, I>(DotPairs<false, false, High>{}));
}

/// The named modes of prmt: the low bits of c select which bytes of b:a the result takes.
void RegisterPermutations(HandlerTable& t) {
  using U = uint32_t;
  t.Add("prmt.b32.f4e", Make<U, U, U, U>([](U a, U b, U c) {
          return Permute(a, b, 0x3210u + 0x1111u * (c & 3u));
        }));
  t.Add("prmt.b32.b4e", Make<U, U, U, U>([](U a, U b, U c) {
          const U n = c & 3u;
          return Permute(a, b,
                         n | ((n + 7u) & 7u) << 4 | ((n + 6u) & 7u) << 8 | ((n + 5u) & 7u) << 12);
        }));
  t.Add("prmt.b32.rc8",
        Make<U, U, U, U>([](U a, U b, U c) { return Permute(a, b, 0x1111u * (c & 3u)); }));
  t.Add("prmt.b32.rc16", Make<U, U, U, U>([](U a, U b, U c) {
          return Permute(a, b, (c & 1u) != 0 ? 0x3232u : 0x1010u);
        }));
  t.Add("prmt.b32.ecl", Make<U, U, U, U>([](U a, U b, U c) {
          const U n = c & 3u;
          U selector = 0;
          for (U i = 0; i < 4; ++i) selector |= (i < n ? n : i) << (4 * i);
          return Permute(a, b, selector);
        }));
  t.Add("prmt.b32.ecr", Make<U, U, U, U>([](U a, U b, U c) {
          const U n = c & 3u;
          U selector = 0;
          for (U i = 0; i < 4; ++i) selector |= (i > n ? n : i) << (4 * i);
          return Permute(a, b, selector);
        }));
}

/// cvt.pack: saturates two integers into the upper part of d. The lower part comes from c.
template <class T>
uint32_t Saturated(int32_t a) {
  const int32_t low = Limits<T>::kMin, high = Limits<T>::kMax;
  return static_cast<Unsigned<T>>(a < low ? low : (a > high ? high : a));
}
void RegisterPacking(HandlerTable& t) {
  using U = uint32_t;
  using I = int32_t;
  t.Add("cvt.pack.sat.u16.s32", Make<U, I, I>([](I a, I b) {
          return Saturated<uint16_t>(a) << 16 | Saturated<uint16_t>(b);
        }));
  t.Add("cvt.pack.sat.s16.s32", Make<U, I, I>([](I a, I b) {
          return Saturated<int16_t>(a) << 16 | Saturated<int16_t>(b);
        }));
  t.Add("cvt.pack.sat.u8.s32.b32", Make<U, I, I, U>([](I a, I b, U c) {
          return c << 16 | Saturated<uint8_t>(a) << 8 | Saturated<uint8_t>(b);
        }));
  t.Add("cvt.pack.sat.s8.s32.b32", Make<U, I, I, U>([](I a, I b, U c) {
          return c << 16 | Saturated<int8_t>(a) << 8 | Saturated<int8_t>(b);
        }));
  t.Add("pack.b16.b8", Make<uint16_t, uint8_t, uint8_t>(
                           [](uint8_t a, uint8_t b) { return static_cast<uint16_t>(a | b << 8); }));
  t.Add("part0.b16.b8",
        Make<uint8_t, uint16_t>([](uint16_t a) { return static_cast<uint8_t>(a); }));
  t.Add("part1.b16.b8",
        Make<uint8_t, uint16_t>([](uint16_t a) { return static_cast<uint8_t>(a >> 8); }));
}

/// Addresses of shared memory in a cluster (cluster.h). A rank that no cluster has stays invalid.
void RegisterClusters(HandlerTable& t) {
  using L = uint64_t;
  using U = uint32_t;
  auto mapped = [](L a, U rank, U own) {
    const L part = rank == own ? 0 : (rank < 255 ? rank + 1 : 255);
    return (a & ~(L{255} << kRankShift)) | part << kRankShift;
  };
  auto rank_of = [](L a, U own) {
    const U part = static_cast<U>(a) >> kRankShift;
    return part == 0 ? own : part - 1;
  };
  using Mapped = decltype(mapped);
  using RankOf = decltype(rank_of);
  t.Add("mapa.u64", Make<L, L, U, U>(mapped));
  t.Add("mapa.u32", Make<U, U, U, U>(
                        [](U a, U rank, U own) { return static_cast<U>(Mapped{}(a, rank, own)); }));
  t.Add("getctarank.u64", Make<U, L, U>(rank_of));
  t.Add("getctarank.u32", Make<U, U, U>([](U a, U own) { return RankOf{}(a, own); }));
}

void RegisterSpaces(HandlerTable& t) {
  using L = uint64_t;
  constexpr L kWindow = L{1} << 32;
  auto shared = [](L a) { return a - kSharedWindow < kWindow; };
  auto local = [](L a) { return a - kLocalWindow < kWindow; };
  auto param = [](L a) { return a - kParamWindow < kWindow; };
  auto own = [](L a) { return a - kSharedWindow < L{1} << kRankShift; };
  t.Add("isspacep.shared", Make<Pred, L>(own));
  t.Add("isspacep.shared::cta", Make<Pred, L>(own));
  t.Add("isspacep.shared::cluster", Make<Pred, L>(shared));
  t.Add("isspacep.local", Make<Pred, L>(local));
  t.Add("isspacep.param", Make<Pred, L>(param));
  t.Add("isspacep.param::entry", Make<Pred, L>(param));
  t.Add("isspacep.global", Make<Pred, L>([](L a) {
          return a - kSharedWindow >= kWindow && a - kLocalWindow >= kWindow &&
                 a - kParamWindow >= kWindow;
        }));
}

}  // namespace rare
}  // namespace

void RegisterRare(HandlerTable& table) {
  rare::RegisterSmallIntegers(table);
  rare::RegisterDotPairs<0>(table, "lo");
  rare::RegisterDotPairs<1>(table, "hi");
  rare::RegisterPermutations(table);
  rare::RegisterPacking(table);
  rare::RegisterSpaces(table);
  rare::RegisterClusters(table);
  rare::RegisterPairs(table);
  rare::RegisterSmallFloats(table);
}

}  // namespace cupel::emu
