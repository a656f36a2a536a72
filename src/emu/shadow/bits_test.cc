// Shadow values of floats that are moved, cut and negated through their bits.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "emu/shadow/shadow_testing.h"

namespace cupel::emu {
namespace {

const std::string kThird = "div.rn.f32 %f2, %f1, 0f40400000;\n";  // x / 3: inexact
/// x / 3 in double. A test passes it through its bits.
const std::string kDoubleThird = "cvt.f64.f32 %d1, %f1; div.rn.f64 %d1, %d1, 0d4008000000000000;\n";
const std::string kOut = "cvt.rn.f32.f64 %f3, %d2; st.global.f32 [%rd2], %f3;";
const std::string kOutSingle = "st.global.f32 [%rd2], %f3;";
double Third(double x) { return x / 3; }
double MinusThird(double x) { return -(x / 3); }

TEST(ShadowBitsTest, MovesADoubleAsTwoWords) {
  for (const char* through : {
           "mov.b64 {%r2, %r3}, %d1; mov.b64 %d2, {%r2, %r3};",
           "mov.b64 {%r2, %r3}, %d1; shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1; "
           "shfl.sync.bfly.b32 %r5, %r3, 1, 31, -1; shfl.sync.bfly.b32 %r4, %r4, 1, 31, -1; "
           "shfl.sync.bfly.b32 %r5, %r5, 1, 31, -1; mov.b64 %d2, {%r4, %r5};",
           "mov.b64 {%r2, %r3}, %d1; cvt.u64.u32 %rd5, %r3; shl.b64 %rd5, %rd5, 32; "
           "cvt.u64.u32 %rd6, %r2; or.b64 %rd5, %rd6, %rd5; mov.b64 %d2, %rd5;",
           "mov.b64 %rd5, %d1; shr.u64 %rd6, %rd5, 32; cvt.u32.u64 %r3, %rd6; "
           "cvt.u32.u64 %r2, %rd5; mov.b64 %d2, {%r2, %r3};",
           "mov.b64 {%r2, %r3}, %d1; mov.b32 {%h1, %h2}, %r2; mov.b32 {%h3, %h4}, %r3; "
           "mov.b64 %d2, {%h1, %h2, %h3, %h4};",
           "mov.b64 {%r2, %r3}, %d1; setp.lt.u32 %p1, %r1, 5; selp.b32 %r4, %r2, %r2, %p1; "
           "mov.b64 %d2, {%r4, %r3};",
           "mov.b64 %rd5, %d1; and.b64 %rd6, %rd5, 0xffffffff; "
           "and.b64 %rd7, %rd5, 0xffffffff00000000; or.b64 %rd5, %rd6, %rd7; mov.b64 %d2, %rd5;",
       }) {
    ExpectExact(kDoubleThird + through + kOut, Third);
  }
}

TEST(ShadowBitsTest, FlushingIsRounding) {
  // The bits of a half as a float: tiny, then scaled up again.
  ExpectExact(
      "mov.b32 %r2, 0x00002000; mov.b32 %f2, %r2; mul.ftz.f32 %f3, %f2, 0f77800000; "
      "add.ftz.f32 %f3, %f3, %f1; sub.ftz.f32 %f3, %f3, %f1;" +
          kOutSingle,
      [](double) { return 8192 * 0x1p-149 * 0x1p112; });
}

TEST(ShadowBitsTest, RoundingDependentAddressMarksPlacesInDoubt) {
  // Compares x / 3 * 3 with x: equal in exact arithmetic, and sometimes after rounding.
  const std::string choose = kThird +
                             "mul.rn.f32 %f3, %f2, 0f40400000; setp.gt.f32 %p1, %f3, %f1; "
                             "selp.b64 %rd5, 4, 0, %p1; ";
  EXPECT_FALSE(RunShadows(choose + kOutSingle).places_in_doubt);
  EXPECT_TRUE(RunShadows(choose +
                         "mov.u64 %rd9, stack; add.u64 %rd9, %rd9, %rd5; "
                         "st.local.f32 [%rd9], %f3; ld.local.f32 %f3, [stack];" +
                         kOutSingle)
                  .places_in_doubt);
  EXPECT_TRUE(RunShadows(choose +
                         "mov.u32 %r9, tile; cvt.u32.u64 %r8, %rd5; add.u32 %r9, %r9, %r8; "
                         "red.shared.add.f32 [%r9], %f3;" +
                         kOutSingle)
                  .places_in_doubt);
}

TEST(ShadowBitsTest, MovesADoubleThroughMemoryInParts) {
  const std::string place =
      "mov.u32 %r9, tile; and.b32 %r8, %r1, 31; shl.b32 %r8, %r8, 3; "
      "add.u32 %r9, %r9, %r8; mov.u64 %rd9, stack;";
  for (const char* through : {
           "mov.b64 {%r2, %r3}, %d1; st.local.v2.b32 [%rd9], {%r2, %r3}; ld.local.f64 %d2, [%rd9];",
           "st.local.f64 [%rd9], %d1; ld.local.v2.b32 {%r2, %r3}, [%rd9]; mov.b64 %d2, {%r2, %r3};",
           "st.local.f64 [%rd9+8], %d1; ld.local.b32 %r3, [%rd9+12]; ld.local.b32 %r2, [%rd9+8]; "
           "mov.b64 %d2, {%r2, %r3};",
           "mov.b64 {%r2, %r3}, %d1; st.local.b32 [%rd9+4], %r3; st.local.b32 [%rd9], %r2; "
           "ld.local.b64 %rd5, [%rd9]; mov.b64 %d2, %rd5;",
           "st.local.f64 [%rd9], %d1; ld.local.v4.b16 {%h1, %h2, %h3, %h4}, [%rd9]; "
           "mov.b64 %d2, {%h1, %h2, %h3, %h4};",
       }) {
    ExpectExact(place + kDoubleThird + through + kOut, Third);
  }
  const Seen seen =
      RunShadows(place + kDoubleThird +
                 "mov.b64 {%r2, %r3}, %d1; st.shared.b32 [%r9], %r2; st.shared.b32 [%r9+4], %r3; "
                 "bar.sync 0; ld.shared.f64 %d2, [%r9];" +
                 kOut);
  EXPECT_NEAR(seen.shadow[20].exact, Input(20) / 3.0, 1e-14);
  EXPECT_EQ(seen.shadow[20].flags, 0u);
}

TEST(ShadowBitsTest, PartsOfDifferentNumbersReset) {
  const std::string two = kDoubleThird +
                          "add.f64 %d3, %d1, %d1; mov.b64 {%r2, %r3}, %d1; "
                          "mov.b64 {%r4, %r5}, %d3;";
  ExpectFlags(two + "mov.b64 %d2, {%r4, %r3};" + kOut, kReset);
  ExpectFlags(two + "mov.b64 %d2, {%r3, %r2};" + kOut, kReset);
  // A word replaces half of a double in memory.
  ExpectFlags(kDoubleThird +
                  "mov.u64 %rd9, stack; st.local.f64 [%rd9], %d1; mov.u32 %r2, 77; "
                  "st.local.b32 [%rd9], %r2; ld.local.f64 %d2, [%rd9];" +
                  kOut,
              kReset);
}

TEST(ShadowBitsTest, MovesAFloatAsHalfwordsAndInPairs) {
  for (const char* through : {
           "mov.b32 {%h1, %h2}, %f2; mov.b32 %f3, {%h1, %h2};",
           "mov.b32 %r2, %f2; prmt.b32 %r3, %r2, 0, 0x1032; prmt.b32 %r4, %r3, 0, 0x1032; "
           "mov.b32 %f3, %r4;",
           "mov.b32 %r2, %f2; shl.b32 %r3, %r2, 16; shr.u32 %r3, %r3, 16; "
           "and.b32 %r4, %r2, 0xffff0000; or.b32 %r4, %r3, %r4; mov.b32 %f3, %r4;",
           "mov.b32 %r2, %f2; bfe.u32 %r3, %r2, 16, 16; bfi.b32 %r4, %r3, %r2, 16, 16; "
           "mov.b32 %f3, %r4;",
           "mov.b64 %rd5, {%f1, %f2}; shr.u64 %rd5, %rd5, 32; cvt.u32.u64 %r2, %rd5; "
           "mov.b32 %f3, %r2;",
           // Sums with an integer that is zero at run time.
           "mov.b32 %r2, %f2; mov.u32 %r3, %ctaid.x; add.s32 %r4, %r2, %r3; sub.s32 %r4, %r4, %r3; "
           "mov.b32 %f3, %r4;",
           "mov.b32 %r2, %f2; max.s32 %r2, %r2, 0; mov.b32 %f3, %r2;",
       }) {
    ExpectExact(kThird + through + kOutSingle, Third);
  }
}

TEST(ShadowBitsTest, PairsOfFloatsComputeBoth) {
  const std::string head = kThird + "mov.b64 %rd5, {%f1, %f2};";
  const std::string tail = "mov.b64 {%f4, %f5}, %rd6; sub.f32 %f3, %f5, %f4;" + kOutSingle;
  ExpectExact(head + "add.rn.f32x2 %rd6, %rd5, %rd5;" + tail,
              [](double x) { return 2 * (x / 3) - 2 * x; });
  ExpectExact(head + "fma.rn.f32x2 %rd6, %rd5, %rd5, %rd5;" + tail,
              [](double x) { return x / 3 * (x / 3) + x / 3 - x * x - x; });
}

TEST(ShadowBitsTest, DetectsRoundingByMagicNumbersInPairs) {
  // x / 3 + 1.5 * 2^23 - 1.5 * 2^23, in both floats of a pair.
  ExpectFlags(kThird + R"(
    mov.b64 %rd5, {%f2, %f2}; mov.f32 %f4, 0f4B400000; mov.b64 %rd6, {%f4, %f4};
    add.rn.f32x2 %rd7, %rd5, %rd6; sub.rn.f32x2 %rd7, %rd7, %rd6;
    mov.b64 {%f3, %f5}, %rd7;)" +
                  kOutSingle,
              kReset);
}

// Partial warps run other handlers, and rare instructions have their own handlers.
TEST(ShadowBitsTest, RareInstructionsRunInPartialWarps) {
  ExpectFlags(
      "mov.b32 %r2, %f1; mov.u32 %r3, 0; add.u16x2 %r4, %r2, %r3; mov.b32 %f3, %r4;" + kOutSingle,
      kReset);
  ExpectFlags(
      "cvt.rn.f16.f32 %h1, %f1; setp.gt.ftz.f16 %p1, %h1, 0x0000; "
      "selp.f32 %f3, %f1, 0f00000000, %p1;" +
          kOutSingle,
      0);
}

TEST(ShadowBitsTest, MixedPrecisionSums) {
  const std::string head = "cvt.rn.f16.f32 %h1, %f1; cvt.rn.bf16.f32 %h2, %f1;" + kThird;
  ExpectExact(head + "fma.rn.f32.f16 %f3, %h1, %h1, %f2;" + kOutSingle,
              [](double x) { return x * x + x / 3; });
  ExpectExact(head + "add.f32.bf16 %f3, %h2, %f2;" + kOutSingle,
              [](double x) { return x + x / 3; });
  ExpectExact(head + "sub.f32.f16 %f3, %h1, %f2;" + kOutSingle, [](double x) { return x - x / 3; });
}

TEST(ShadowBitsTest, CuttingDigitsIsRounding) {
  for (const char* cut : {
           "mov.b32 %r2, %f2; and.b32 %r3, %r2, 0xffff0000; mov.b32 %f3, %r3;",
           "mov.b32 %r2, %f2; and.b32 %r3, %r2, 0xffffe000; mov.b32 %f3, %r3;",
           "mov.b32 %r2, %f2; shr.u32 %r3, %r2, 16; shl.b32 %r3, %r3, 16; mov.b32 %f3, %r3;",
           "mov.b32 {%h1, %h2}, %f2; cvt.f32.bf16 %f3, %h2;",
           "mov.b32 {%h1, %h2}, %f2; mov.b16 %h3, 0; mov.b32 %f3, {%h3, %h2};",
       }) {
    ExpectExact(kThird + cut + kOutSingle, Third);
  }
  const std::string most = "mov.b32 %r2, %f2; and.b32 %r3, %r2, 0xff800000; mov.b32 %f3, %r3;";
  ExpectFlags(kThird + most + kOutSingle, kReset);
}

TEST(ShadowBitsTest, RoundingToNearestWithIntegersIsRounding) {
  const std::string lowest = "mov.b32 %r2, %f2; shr.u32 %r3, %r2, 16; and.b32 %r3, %r3, 1; ";
  const std::string upper = "and.b32 %r2, %r2, 0xffff0000; mov.b32 %f3, %r2;";
  for (const std::string& round : std::vector<std::string>{
           "add.u32 %r3, %r3, 0x7fff; add.u32 %r2, %r2, %r3; " + upper,
           "add.u32 %r2, %r3, %r2; add.u32 %r2, %r2, 0x7fff; " + upper,
           "add.u32 %r2, %r2, 0x8000; shr.u32 %r2, %r2, 16; shl.b32 %r2, %r2, 16; "
           "mov.b32 %f3, %r2;",
       }) {
    ExpectExact(kThird + lowest + round + kOutSingle, Third);
  }
  // More than half a unit, a difference, or another word is arithmetic on the bits.
  for (const char* other :
       {"add.u32 %r2, %r2, 0x8001; ", "sub.u32 %r2, %r2, 0x7fff; ", "add.u32 %r2, %r2, %r2; "}) {
    ExpectFlags(kThird + lowest + other + upper + kOutSingle, kReset);
  }
}

/// Expects the shadow to be f of the input within `relative`, and these flags.
void ExpectNear(const std::string& body, double relative, uint32_t flags, double (*f)(double)) {
  const Seen seen = RunShadows(body);
  ASSERT_EQ(seen.shadow.size(), size_t{kThreads}) << body;
  for (int i = 0; i < kThreads; ++i) {
    const Shadow& shadow = seen.shadow[static_cast<size_t>(i)];
    EXPECT_NEAR(shadow.exact, f(Input(i)), relative * std::fabs(f(Input(i)))) << body << i;
    EXPECT_EQ(shadow.flags, flags) << body << i;
  }
}

TEST(ShadowBitsTest, ChangingTheExponentScalesTheExactValue) {
  for (const char* scale : {
           "mov.b32 %r2, %f2; add.s32 %r3, %r2, 0x01000000; mov.b32 %f3, %r3;",
           "mov.b32 %r2, %f2; mov.u32 %r4, 0x01000000; add.s32 %r3, %r4, %r2; mov.b32 %f3, %r3;",
           "mov.b32 %r2, %f2; sub.s32 %r3, %r2, 0xff000000; mov.b32 %f3, %r3;",
           "mov.b32 %r2, %f2; mov.u32 %r4, 2; shl.b32 %r4, %r4, 23; add.s32 %r3, %r2, %r4; "
           "mov.b32 %f3, %r3;",
       }) {
    ExpectNear(kThird + scale + kOutSingle, 1e-15, kReset, [](double x) { return 4 * x / 3; });
  }
  // Digits, the sign, or a number that is not normal: then the value counts.
  for (const char* other : {
           "mov.b32 %r2, %f2; add.s32 %r3, %r2, 0x01000001; mov.b32 %f3, %r3;",
           "mov.b32 %r2, %f2; add.s32 %r3, %r2, 0x80000000; mov.b32 %f3, %r3;",
           "mov.b32 %r2, %f2; mov.u32 %r4, 0x7f000000; sub.s32 %r3, %r4, %r2; mov.b32 %f3, %r3;",
       }) {
    const Seen seen = RunShadows(kThird + other + kOutSingle);
    for (size_t i = 0; i < size_t{kThreads}; ++i) {
      EXPECT_EQ(seen.shadow[i].exact, static_cast<double>(seen.value[i])) << other;
      EXPECT_EQ(seen.shadow[i].flags, kReset) << other;
    }
  }
}

// The code that nvcc makes of expf(%f2) without fast math: 2^%f14 * %f15.
const std::string kExp = R"(
    fma.rn.f32 %f4, %f2, 0f3BBB989D, 0f3F000000; cvt.sat.f32.f32 %f5, %f4;
    mov.f32 %f6, 0f4B400001; mov.f32 %f7, 0f437C0000;
    fma.rm.f32 %f8, %f5, %f7, %f6; add.f32 %f9, %f8, 0fCB40007F; neg.f32 %f10, %f9;
    fma.rn.f32 %f12, %f2, 0f3FB8AA3B, %f10; fma.rn.f32 %f14, %f2, 0f32A57060, %f12;
    mov.b32 %r2, %f8; shl.b32 %r3, %r2, 23; mov.b32 %f15, %r3; ex2.approx.ftz.f32 %f16, %f14;
)";
const std::string kTinyThird = kThird + "mul.f32 %f2, %f2, 0f3A800000;\n";

TEST(ShadowBitsTest, AccurateExponentialIsExact) {
  ExpectNear(kThird + kExp + "mul.f32 %f3, %f16, %f15;" + kOutSingle, 0x1p-35, 0,
             [](double x) { return std::exp(x / 3); });
  ExpectNear(kTinyThird + kExp + "fma.rn.f32 %f3, %f16, %f15, 0fBF800000;" + kOutSingle, 0x1p-24, 0,
             [](double x) { return std::expm1(x / 3 * 0x1p-10); });
  // Both factors are used twice.
  ExpectNear(kThird + kExp +
                 "mul.f32 %f3, %f16, %f15; fma.rn.f32 %f4, %f15, %f16, 0f3F800000; "
                 "div.rn.f32 %f3, %f3, %f4;" +
                 kOutSingle,
             0x1p-35, 0, [](double x) { return 1 / (1 + std::exp(-x / 3)); });
}

TEST(ShadowBitsTest, ResetsIfTheRoundedExponentMatters) {
  for (const char* use : {
           "mul.f32 %f3, %f16, %f15; add.f32 %f3, %f3, %f9;",
           "mul.f32 %f3, %f16, %f15; mul.f32 %f3, %f3, %f15;",
           "mul.f32 %f3, %f16, %f16; mul.f32 %f3, %f3, %f15;",
           "fma.rn.f32 %f3, %f16, %f15, %f15;",
           "mov.f32 %f3, %f15;",
           "mov.f32 %f3, %f9;",
           "cvt.rn.f32.s32 %f4, %r2; fma.rn.f32 %f3, %f16, %f15, %f4;",
       }) {
    ExpectFlags(kThird + kExp + use + kOutSingle, kReset);
  }
}

TEST(ShadowBitsTest, ExactValuesPassThroughTheLibrarysLogarithm) {
  // The code that nvcc makes of logf(1 + %f2) without fast math.
  ExpectNear(kTinyThird + R"(
    add.f32 %f1, %f2, 0f3F800000;
    mov.b32 %r2, %f1; add.s32 %r3, %r2, -1059760811; and.b32 %r4, %r3, -8388608;
    sub.s32 %r5, %r2, %r4; mov.b32 %f8, %r5; cvt.rn.f32.s32 %f9, %r4;
    fma.rn.f32 %f11, %f9, 0f34000000, 0f00000000; add.f32 %f12, %f8, 0fBF800000;
    fma.rn.f32 %f15, 0fBE055027, %f12, 0f3E1039F6; fma.rn.f32 %f17, %f15, %f12, 0fBDF8CDCC;
    fma.rn.f32 %f19, %f17, %f12, 0f3E0F2955; fma.rn.f32 %f3, %f19, %f12, 0fBE2AD8B9;
    fma.rn.f32 %f3, %f3, %f12, 0f3E4CED0B; fma.rn.f32 %f3, %f3, %f12, 0fBE7FFF22;
    fma.rn.f32 %f3, %f3, %f12, 0f3EAAAA78; fma.rn.f32 %f3, %f3, %f12, 0fBF000000;
    mul.f32 %f4, %f12, %f3; fma.rn.f32 %f4, %f4, %f12, %f12;
    fma.rn.f32 %f3, %f11, 0f3F317218, %f4;)" +
                 kOutSingle,
             0x1p-20, kReset, [](double x) { return std::log1p(x / 3 * 0x1p-10); });
}

TEST(ShadowBitsTest, FollowsOperationsOnSignBits) {
  ExpectExact(
      kThird + "mov.b32 %r2, %f2; xor.b32 %r2, %r2, 0x80000000; mov.b32 %f3, %r2;" + kOutSingle,
      MinusThird);
  ExpectExact(kThird +
                  "neg.f32 %f2, %f2; mov.b32 %r2, %f2; and.b32 %r2, %r2, 0x7fffffff; "
                  "mov.b32 %f3, %r2;" +
                  kOutSingle,
              Third);
  ExpectExact(
      kThird + "mov.b32 %r2, %f2; or.b32 %r2, %r2, 0x80000000; mov.b32 %f3, %r2;" + kOutSingle,
      MinusThird);
  // The sign of a double is in its upper word.
  ExpectExact(kDoubleThird +
                  "mov.b64 {%r2, %r3}, %d1; xor.b32 %r3, %r3, 0x80000000; "
                  "mov.b64 %d2, {%r2, %r3};" +
                  kOut,
              MinusThird);
  ExpectExact(kDoubleThird +
                  "neg.f64 %d1, %d1; mov.b64 %rd5, %d1; "
                  "and.b64 %rd5, %rd5, 0x7fffffffffffffff; mov.b64 %d2, %rd5;" +
                  kOut,
              Third);
  // copysign: the magnitude of one number, the sign of another.
  ExpectExact(kThird +
                  "neg.f32 %f4, %f1; mov.b32 %r3, %f4; and.b32 %r3, %r3, 0x80000000; "
                  "mov.b32 %r2, %f2; and.b32 %r2, %r2, 0x7fffffff; or.b32 %r2, %r3, %r2; "
                  "mov.b32 %f3, %r2;" +
                  kOutSingle,
              MinusThird);
  ExpectExact(kDoubleThird +
                  "neg.f32 %f4, %f1; mov.b32 %r4, %f4; and.b32 %r4, %r4, 0x80000000; "
                  "mov.b64 {%r2, %r3}, %d1; xor.b32 %r3, %r3, %r4; "
                  "mov.b64 %d2, {%r2, %r3};" +
                  kOut,
              MinusThird);
}

TEST(ShadowBitsTest, RoundingDependentSignIsInDoubt) {
  // x / 3 * 3 - x is zero in exact arithmetic, but not after rounding, so its sign has no meaning.
  const Seen seen = RunShadows(kThird + R"(
    neg.f32 %f4, %f1; fma.rn.f32 %f4, %f2, 0f40400000, %f4;
    mov.b32 %r3, %f4; and.b32 %r3, %r3, 0x80000000; mov.b32 %r2, %f2; xor.b32 %r2, %r2, %r3;
    mov.b32 %f3, %r2;)" + kOutSingle);
  int doubts = 0;
  for (size_t i = 0; i < size_t{kThreads}; ++i) {
    EXPECT_EQ(seen.shadow[i].flags != 0, seen.value[i] < 0) << i;
    doubts += seen.shadow[i].flags == kDecision;
  }
  EXPECT_GT(doubts, 0);
}

TEST(ShadowBitsTest, ComparingBitsFarFromTheBoundIsNotInDoubt) {
  const std::string bits = kThird + "mov.b32 %r2, %f2; ";
  for (const char* choose : {
           // Tests for NaN, by the magnitude and with the sign, and for a large number.
           "and.b32 %r3, %r2, 0x7fffffff; setp.gt.u32 %p1, %r3, 0x7f800000; "
           "selp.b32 %r3, 0x7fffffff, %r2, %p1; mov.b32 %f3, %r3;",
           "setp.gt.s32 %p1, %r2, 0x7f800000; selp.f32 %f3, %f1, %f2, %p1;",
           "setp.lt.u32 %p1, %r2, 0xff800001; selp.f32 %f3, %f2, %f1, %p1;",
           "mov.b32 %r3, 0x7f000000; setp.le.s32 %p1, %r2, %r3; selp.f32 %f3, %f2, %f1, %p1;",
       }) {
    ExpectExact(bits + choose + kOutSingle, Third);
  }
}

TEST(ShadowBitsTest, ComparingBitsOfAlmostEqualFloatsIsInDoubt) {
  ExpectFlags(kThird +
                  "mov.b32 %r2, %f2; add.rn.f32 %f3, %f2, 0f00000000; mov.b32 %r3, %f3; "
                  "add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r2, %r3; selp.f32 %f3, %f2, %f1, %p1;" +
                  kOutSingle,
              kDecision);
}

TEST(ShadowBitsTest, BytesOfAFloatStayFlagged) {
  // Byte by byte through memory: the number is not followed, and not treated as exact.
  ExpectFlags(kThird + R"(
    mov.u64 %rd9, stack; mov.b32 %r2, %f2;
    shr.u32 %r3, %r2, 8; shr.u32 %r4, %r2, 16; shr.u32 %r5, %r2, 24;
    st.local.u8 [%rd9], %r2; st.local.u8 [%rd9+1], %r3; st.local.u8 [%rd9+2], %r4;
    st.local.u8 [%rd9+3], %r5; ld.local.f32 %f3, [%rd9];)" +
                  kOutSingle,
              kReset);
  // A byte replaces one byte of a float.
  ExpectFlags(kThird + R"(
    mov.u64 %rd9, stack; st.local.f32 [%rd9], %f2; mov.u32 %r2, 0; st.local.u8 [%rd9], %r2;
    ld.local.f32 %f3, [%rd9];)" +
                  kOutSingle,
              kReset);
}

TEST(ShadowBitsTest, CallsPreserveTheCallersShadows) {
  // f(x, n) = n == 0 ? x / 3 : f(x, n - 1) + x / 3: x / 3 is kept across the recursive call.
  const std::string recursive = R"(
.func (.param .b32 result) f(.param .b32 x, .param .b32 n) {
  .reg .f32 %f<9>;
  .reg .b32 %r<9>;
  .reg .pred %p1;
  ld.param.f32 %f1, [x];
  ld.param.u32 %r1, [n];
  div.rn.f32 %f2, %f1, 0f40400000;
  mov.f32 %f3, %f2;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra done;
  sub.u32 %r2, %r1, 1;
  { .param .b32 a; .param .b32 b; .param .b32 c;
    st.param.f32 [a], %f1; st.param.b32 [b], %r2;
    call (c), f, (a, b);
    ld.param.f32 %f4, [c]; }
  add.f32 %f3, %f4, %f2;
done:
  st.param.f32 [result], %f3;
  ret;
})";
  const std::string body = kThird + R"(
  mov.u32 %r2, 3;
  { .param .b32 a; .param .b32 b; .param .b32 c;
    st.param.f32 [a], %f1; st.param.b32 [b], %r2;
    call (c), f, (a, b);
    ld.param.f32 %f3, [c]; }
  add.f32 %f3, %f3, %f2;)" +
                           kOutSingle;
  const Seen seen = RunShadows(body, 0, recursive);
  ASSERT_EQ(seen.shadow.size(), size_t{kThreads});
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_NEAR(seen.shadow[static_cast<size_t>(i)].exact, 5 * (Input(i) / 3.0), 1e-12) << i;
    EXPECT_EQ(seen.shadow[static_cast<size_t>(i)].flags, 0u) << i;
  }
}

TEST(ShadowBitsTest, BulkCopiesMoveShadows) {
  // One thread copies x / 3 through global memory into shared memory and back.
  const Seen seen = RunShadows(kThird + R"(
  st.global.f32 [%rd2], %f2;
  mov.u32 %r2, tile;
  add.u32 %r3, %r2, 256;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra wait;
  mbarrier.init.shared.b64 [%r3], 1;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 160;
wait:
  bar.sync 0;
  @%p1 bra ready;
  fence.proxy.async;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2], 160, [%r3];
ready:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0;
  @!%p2 bra ready;
  shl.b32 %r4, %r1, 2;
  add.u32 %r4, %r2, %r4;
  ld.shared.f32 %f3, [%r4];
  add.f32 %f3, %f3, %f3;
  st.shared.f32 [%r4], %f3;
  bar.sync 0;
  @%p1 bra done;
  fence.proxy.async;
  cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 160;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
done:
)");
  ASSERT_EQ(seen.shadow.size(), size_t{kThreads});
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_NEAR(seen.shadow[static_cast<size_t>(i)].exact, 2 * (Input(i) / 3.0), 1e-13) << i;
    EXPECT_EQ(seen.shadow[static_cast<size_t>(i)].flags, 0u) << i;
  }
}

// They keep the exact value, which may establish a kernel. They are also flagged, so that they
// reject no kernel: a task may itself round to eight bits.
TEST(ShadowBitsTest, EightBitFloatsKeepFlaggedExactValues) {
  const Seen seen = RunShadows(kThird + R"(
    cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2; cvt.rn.f16x2.e4m3x2 %r2, %h1;
    mov.b32 {%h2, %h3}, %r2; cvt.f32.f16 %f4, %h2; cvt.f32.f16 %f5, %h3;
    fma.rn.f32 %f3, %f5, 0f42000000, %f4;)" +
                               kOutSingle);
  ASSERT_EQ(seen.shadow.size(), size_t{kThreads});
  for (int i = 0; i < kThreads; ++i) {
    const Shadow& shadow = seen.shadow[static_cast<size_t>(i)];
    EXPECT_NEAR(shadow.exact, Input(i) / 3.0 + 32 * static_cast<double>(Input(i)), 1e-5) << i;
    EXPECT_EQ(shadow.flags, kSmall) << i;
  }
}

TEST(ShadowBitsTest, BytesOfEightBitFloatsKeepExactValues) {
  const std::string narrow = kThird +
                             "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2; mov.f32 %f6, 0f00000000; "
                             "cvt.rn.satfinite.e4m3x2.f32 %h2, %f6, %f1; mov.u64 %rd9, stack; ";
  const std::string widen =
      "cvt.rn.f16x2.e4m3x2 %r2, %h3; mov.b32 {%h4, %h5}, %r2; cvt.f32.f16 %f3, %h4;" + kOutSingle;
  for (const char* through : {
           "st.local.u8 [%rd9], %h1; ld.local.u8 %h3, [%rd9];",
           "st.local.u8 [%rd9+1], %h1; st.local.u8 [%rd9], %h2; ld.local.u8 %h3, [%rd9+1];",
           "st.local.u8 [%rd9+1], %h2; st.local.u8 [%rd9], %h1; ld.local.u16 %h3, [%rd9];",
           "st.local.u16 [%rd9], %h1; ld.local.u8 %h3, [%rd9];",
           "and.b16 %h3, %h1, 255;",
       }) {
    const Seen seen = RunShadows(narrow + through + widen);
    ASSERT_EQ(seen.shadow.size(), size_t{kThreads});
    for (int i = 0; i < kThreads; ++i) {
      const Shadow& shadow = seen.shadow[static_cast<size_t>(i)];
      EXPECT_NEAR(shadow.exact, Input(i) / 3.0, 1e-6) << i << through;
      EXPECT_EQ(shadow.flags, kSmall) << i << through;
    }
  }
}

TEST(ShadowBitsTest, BytesOfOtherFloatsAreReset) {
  // The byte next to a known one is of no float of 8 bits.
  const Seen seen = RunShadows(kThird + R"(
    mov.u64 %rd9, stack; mov.b32 {%h1, %h2}, %f2; st.local.u8 [%rd9], %h1;
    cvt.rn.satfinite.e4m3x2.f32 %h4, %f1, %f2; st.local.u8 [%rd9+1], %h4;
    ld.local.u8 %h3, [%rd9]; cvt.rn.f16x2.e4m3x2 %r2, %h3; mov.b32 {%h4, %h5}, %r2;
    cvt.f32.f16 %f3, %h4;)" + kOutSingle);
  for (const Shadow& shadow : seen.shadow) EXPECT_EQ(shadow.flags & kReset, kReset);
}

/// A warp's product: x / 3 in all of a, in a format, and ones in b. Results are sums of 32
/// products.
Seen Product(const std::string& a, const std::string& one, const std::string& shape,
             const std::string& type) {
  return RunShadows(kThird + "setp.ge.u32 %p1, %r1, 32; @%p1 bra done;" + a + "mov.b32 %r3, " +
                    one + "; mov.f32 %f3, 0f00000000; mov.u32 %r9, 0;" + "mma.sync.aligned." +
                    shape + type + ";\n st.global.f32 [%rd2], %f4;\ndone:\n");
}

TEST(ShadowBitsTest, ProductsOfEightBitFloats) {
  const Seen seen =
      Product("cvt.rn.satfinite.e4m3x2.f32 %h1, %f2, %f2; mov.b32 %r2, {%h1, %h1};", "0x38383838",
              "m16n8k32.row.col.f32.e4m3.e4m3.f32",
              " {%f4, %f5, %f6, %f7}, {%r2, %r2, %r2, %r2}, {%r3, %r3}, {%f3, %f3, %f3, %f3}");
  for (int lane = 0; lane < 32; ++lane) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += 8 * (Input(lane / 4 * 4 + i) / 3.0);
    const Shadow& shadow = seen.shadow[static_cast<size_t>(lane)];
    EXPECT_NEAR(shadow.exact, sum, 1e-5 * sum) << lane;
    EXPECT_EQ(shadow.flags, kSmall);
  }
}

TEST(ShadowBitsTest, FlagsIntegerProductsByLine) {
  // Lane 5, of line 1, rounds a float to an integer. The other operands are integers.
  const Seen seen = Product(
      "mov.u32 %r2, 1; cvt.rni.s32.f32 %r4, %f2; setp.eq.u32 %p2, %r1, 5; "
      "selp.b32 %r2, %r4, %r2, %p2;",
      "0x01010101", "m16n8k32.row.col.s32.s8.s8.s32",
      " {%r4, %r5, %r6, %r7}, {%r2, %r9, %r9, %r9}, {%r3, %r3}, "
      "{%r9, %r9, %r9, %r9}; cvt.rn.f32.s32 %f4, %r4");
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(seen.shadow[static_cast<size_t>(lane)].flags, lane / 4 == 1 ? kReset : 0u) << lane;
  }
}

TEST(ShadowBitsTest, StagedInputsAreStillFloats) {
  // An input passes through shared memory and is then rounded by arithmetic on its bits.
  ExpectFlags(R"(
    mov.u32 %r2, tile; and.b32 %r3, %r1, 31; shl.b32 %r3, %r3, 2; add.u32 %r2, %r2, %r3;
    st.shared.f32 [%r2], %f1; ld.shared.b32 %r4, [%r2]; add.u32 %r4, %r4, 0x8001;
    and.b32 %r4, %r4, 0xffff0000; mov.b32 %f3, %r4;)" +
                  kOutSingle,
              kReset);
}

TEST(ShadowBitsTest, InputsAreFloatsForAllKindsOfLoads) {
  const std::string nearest =
      "add.u32 %r4, %r4, 0x8001; and.b32 %r4, %r4, 0xffff0000; "
      "mov.b32 %f3, %r4;" +
      kOutSingle;
  ExpectFlags("ld.global.u32 %r4, [%rd1];" + nearest, kReset);
  ExpectFlags(
      "and.b64 %rd5, %rd1, -8; ld.global.u64 %rd6, [%rd5]; cvt.u32.u64 %r4, %rd6;" + nearest,
      kReset);
  ExpectFlags(
      "and.b64 %rd5, %rd1, -8; ld.global.u64 %rd6, [%rd5]; shr.u64 %rd6, %rd6, 32; "
      "cvt.u32.u64 %r4, %rd6;" +
          nearest,
      kReset);
  // The upper half alone is the number truncated to bfloat16.
  ExpectExact("ld.global.u16 %h1, [%rd1+2]; cvt.f32.bf16 %f3, %h1;" + kOutSingle,
              [](double x) { return x; });
}

TEST(ShadowBitsTest, MovmatrixTransposesHalves) {
  // Transposing twice restores the matrix. Once: lane 1 gets line 0 of lanes 8 and 12.
  const std::string halves = "setp.ge.u32 %p1, %r1, 32; @%p1 bra done;" + kThird +
                             "cvt.rn.f16x2.f32 %r2, %f2, %f2;"
                             "movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2;";
  const std::string out =
      "mov.b32 {%h1, %h2}, %r3; cvt.f32.f16 %f4, %h1; cvt.f32.f16 %f5, %h2;"
      "add.f32 %f3, %f4, %f5; st.global.f32 [%rd2], %f3;\ndone:\n";
  const Seen twice = RunShadows(halves + "movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r3;" + out);
  const Seen once = RunShadows(halves + out);
  ASSERT_EQ(once.shadow.size(), size_t{kThreads});
  EXPECT_NEAR(once.shadow[1].exact, Input(8) / 3.0 + Input(12) / 3.0, 1e-13);
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_NEAR(twice.shadow[static_cast<size_t>(lane)].exact, 2 * (Input(lane) / 3.0), 1e-13);
    EXPECT_EQ(twice.shadow[static_cast<size_t>(lane)].flags, 0u) << lane;
  }
}

}  // namespace
}  // namespace cupel::emu
