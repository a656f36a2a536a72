// Shadow values through the interpreter: what they follow, where they reset, and that results do
// not change.
// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow/shadow.h"

#include <cmath>

#include "emu/shadow/shadow_testing.h"

namespace cupel::emu {
namespace {

const char* const kThirdOf = "div.rn.f32 %f2, %f1, 0f40400000;\n";  // x / 3: inexact

TEST(ShadowTest, ArithmeticIsExact) {
  ExpectExact("mul.f32 %f2, %f1, %f1; fma.rn.f32 %f2, %f2, %f1, %f1; st.global.f32 [%rd2], %f2;",
              [](double x) { return x * x * x + x; });
  ExpectExact("rsqrt.approx.f32 %f2, %f1; st.global.f32 [%rd2], %f2;",
              [](double x) { return 1 / std::sqrt(x); });
  ExpectExact(
      "ex2.approx.f32 %f2, %f1; lg2.approx.f32 %f2, %f2; sub.f32 %f2, %f2, %f1; "
      "add.f32 %f2, %f2, %f1; st.global.f32 [%rd2], %f2;",
      [](double x) { return x; });
  ExpectExact(
      "tanh.approx.f32 %f2, %f1; neg.f32 %f2, %f2; abs.f32 %f2, %f2; "
      "st.global.f32 [%rd2], %f2;",
      [](double x) { return std::tanh(x); });
  ExpectExact(
      "cvt.f64.f32 %d1, %f1; div.rn.f64 %d1, %d1, 0d4008000000000000; "
      "cvt.rn.f32.f64 %f2, %d1; st.global.f32 [%rd2], %f2;",
      [](double x) { return x / 3; });
  ExpectExact("mul.f32 %f2, %f1, 0f3DCCCCCD; cvt.sat.f32.f32 %f2, %f2; st.global.f32 [%rd2], %f2;",
              [](double x) { return std::fmin(1, x * static_cast<double>(0.1F)); });
}

TEST(ShadowTest, HalvesKeepExactValues) {
  ExpectExact(
      "cvt.rn.f16.f32 %h1, %f1; add.f16 %h1, %h1, %h1; cvt.f32.f16 %f2, %h1; "
      "st.global.f32 [%rd2], %f2;",
      [](double x) { return 2 * x; });
  // Both halves of a pair, split by mov and by prmt.
  ExpectExact(
      "add.f32 %f3, %f1, %f1; cvt.rn.f16x2.f32 %r2, %f3, %f1; fma.rn.f16x2 %r2, %r2, %r2, "
      "%r2; mov.b32 {%h1, %h2}, %r2; cvt.f32.f16 %f4, %h1; cvt.f32.f16 %f5, %h2; "
      "add.f32 %f2, %f4, %f5; st.global.f32 [%rd2], %f2;",
      [](double x) { return x * x + x + 4 * x * x + 2 * x; });
  ExpectExact(
      "add.f32 %f3, %f1, %f1; cvt.rn.bf16x2.f32 %r2, %f3, %f1; prmt.b32 %r3, %r2, 0, 0x1032;"
      " shl.b32 %r4, %r3, 16; mov.b32 %f2, %r4; st.global.f32 [%rd2], %f2;",
      [](double x) { return 2 * x; });
  ExpectExact(
      "cvt.rn.bf16.f32 %h1, %f1; mov.b32 %r2, {%h1, %h1}; and.b32 %r2, %r2, 0xffff0000; "
      "mov.b32 %f2, %r2; st.global.f32 [%rd2], %f2;",
      [](double x) { return x; });
}

TEST(ShadowTest, MovesThroughEveryMemory) {
  const std::string third = kThirdOf;
  auto f = [](double x) { return x / 3; };
  ExpectExact(third +
                  "st.global.f32 [%rd2], %f2; ld.global.b32 %r2, [%rd2]; mov.b32 %f3, %r2; "
                  "st.global.f32 [%rd2], %f3;",
              f);
  ExpectExact(third +
                  "mov.u32 %r2, tile; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3; "
                  "st.shared.f32 [%r2], %f2; ld.shared.f32 %f3, [%r2]; st.global.f32 [%rd2], %f3;",
              f);
  ExpectExact(third +
                  "mov.u64 %rd5, stack; cvta.local.u64 %rd5, %rd5; st.f32 [%rd5+8], %f2; "
                  "ld.f32 %f3, [%rd5+8]; st.global.f32 [%rd2], %f3;",
              f);
  ExpectExact(third +
                  "mov.b32 %r2, %f2; mov.b64 %rd5, {%r2, %r2}; mov.b64 {%r3, %r4}, %rd5; "
                  "mov.b32 %f3, %r4; st.global.f32 [%rd2], %f3;",
              f);
  ExpectExact(third +
                  "setp.lt.u32 %p1, %r1, 5; selp.f32 %f3, %f2, %f2, %p1; "
                  "st.global.f32 [%rd2], %f3;",
              f);
  ExpectExact(third +
                  "mov.b32 %r2, %f2; shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1; "
                  "shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1; mov.b32 %f3, %r4; "
                  "st.global.f32 [%rd2], %f3;",
              f);
}

TEST(ShadowTest, AtomicsAddShadows) {
  const Seen seen = RunShadows(std::string(kThirdOf) +
                               "sub.u64 %rd4, %rd2, %rd3; atom.global.add.f32 %f3, [%rd4], %f2; "
                               "bar.sync 0;");
  double sum = 0;
  for (int i = 0; i < kThreads; ++i) sum += Input(i) / 3.0;
  EXPECT_NEAR(seen.shadow[0].exact, sum, 1e-12);
  EXPECT_EQ(seen.shadow[0].flags, 0u);
  EXPECT_NE(seen.shadow[0].exact, static_cast<double>(seen.value[0]));
}

// Vector accesses are split into parts after a check of their alignment, which changes no value.
TEST(ShadowTest, VectorAtomicsAddShadows) {
  const std::string third = kThirdOf;
  ExpectFlags(third +
                  "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0;"
                  "@%p1 red.global.add.v2.f32 [%rd2], {%f2, %f2};",
              0);
}

TEST(ShadowTest, IntegerCompareAndSwapLoopAddsShadows) {
  const Seen seen = RunShadows(std::string(kThirdOf) + R"(
  sub.u64 %rd4, %rd2, %rd3;
  ld.global.b32 %r5, [%rd4];
again:
  mov.b32 %f4, %r5;
  add.f32 %f4, %f4, %f2;
  mov.b32 %r6, %f4;
  atom.global.cas.b32 %r7, [%rd4], %r5, %r6;
  setp.ne.s32 %p1, %r7, %r5;
  mov.b32 %r5, %r7;
  @%p1 bra again;
)");
  double sum = 0;
  for (int i = 0; i < kThreads; ++i) sum += Input(i) / 3.0;
  EXPECT_NEAR(seen.shadow[0].exact, sum, 1e-12);
  EXPECT_EQ(seen.shadow[0].flags, 0u);
}

TEST(ShadowTest, IntegerArithmeticOnAFloatResets) {
  const std::string third = kThirdOf;
  const std::string end = "mov.b32 %f3, %r3; st.global.f32 [%rd2], %f3;";
  ExpectFlags(third + "mov.b32 %r2, %f2; add.u32 %r3, %r2, 0x8001;" + end, kReset);
  ExpectFlags(third + "mov.b32 %r2, %f2; and.b32 %r3, %r2, 0xff800000;" + end, kReset);
  ExpectFlags("mov.b32 %r2, %f1; and.b32 %r3, %r2, 0xff800000;" + end, kReset);  // an input
  ExpectFlags(third +
                  "cvt.rzi.s32.f32 %r2, %f2; cvt.rn.f32.s32 %f3, %r2; "
                  "st.global.f32 [%rd2], %f3;",
              kReset);
  ExpectFlags(third + "cvt.rni.f32.f32 %f3, %f2; st.global.f32 [%rd2], %f3;", kReset);
  // Adding and subtracting 1.5 * 2^23 rounds to an integer.
  ExpectFlags(third +
                  "add.f32 %f3, %f2, 0f4B400000; add.f32 %f3, %f3, 0fCB400000; "
                  "st.global.f32 [%rd2], %f3;",
              kReset);
  // The shadow is then the value.
  const Seen seen = RunShadows(third + "mov.b32 %r2, %f2; add.u32 %r3, %r2, 0x8001;" + end);
  EXPECT_EQ(seen.shadow[3].exact, static_cast<double>(seen.value[3]));
}

TEST(ShadowTest, FlagsDecisionsThatDependOnRounding) {
  // x / 3 * 3 may differ from x after rounding, but not in exact arithmetic.
  const std::string product = std::string(kThirdOf) + "mul.f32 %f3, %f2, 0f40400000;\n";
  const std::string close = product + "setp.lt.f32 %p1, %f3, %f1;\n";
  const Seen seen = RunShadows(close + "selp.f32 %f4, %f1, %f2, %p1; st.global.f32 [%rd2], %f4;");
  int flagged = 0;
  for (const Shadow& shadow : seen.shadow) flagged += shadow.flags == kDecision;
  EXPECT_GT(flagged, 0);
  ExpectFlags(product +
                  "setp.lt.f32 %p1, %f3, 0f00000000; selp.f32 %f4, %f1, %f2, %p1; "
                  "st.global.f32 [%rd2], %f4;",
              0);
  // A branch flags everything that its lanes write afterwards.
  const Seen branched = RunShadows(close +
                                   "mov.f32 %f4, 0f3F800000;\n@%p1 bra skip;\n"
                                   "mov.f32 %f4, 0f40000000;\nskip:\n"
                                   "st.global.f32 [%rd2], %f4;");
  int after = 0;
  for (const Shadow& shadow : branched.shadow) after += shadow.flags == kDecision;
  EXPECT_EQ(after, flagged);
}

TEST(ShadowTest, PartialOverwriteInvalidatesTheShadow) {
  // The store of 16 bits changes the float without updating its shadow.
  const Seen seen = RunShadows(std::string(kThirdOf) +
                               "st.global.f32 [%rd2], %f2; mov.b16 %h1, 0x1234; "
                               "st.global.b16 [%rd2], %h1;");
  for (size_t i = 0; i < size_t{kThreads}; ++i) {
    EXPECT_EQ(seen.shadow[i].exact, static_cast<double>(seen.value[i]));
  }
}

TEST(ShadowTest, MatrixProductsAddShadows) {
  // a holds x / 3 rounded to tf32, b ones: each line of d is twice the sum of four lanes' x / 3.
  const Seen seen = RunShadows(std::string(kThirdOf) + R"(
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra done;
  cvt.rna.tf32.f32 %r2, %f2;
  mov.b32 %r3, 0f3F800000;
  mov.f32 %f3, 0f00000000;
  mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f4, %f5, %f6, %f7},
      {%r2, %r2, %r2, %r2}, {%r3, %r3}, {%f3, %f3, %f3, %f3};
  st.global.f32 [%rd2], %f4;
done:
)");
  ASSERT_EQ(seen.shadow.size(), size_t{kThreads});
  for (int lane = 0; lane < 32; ++lane) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += 2 * Input(lane / 4 * 4 + i) / 3.0;
    const Shadow& shadow = seen.shadow[static_cast<size_t>(lane)];
    EXPECT_NEAR(shadow.exact, sum, 1e-12) << lane;
    EXPECT_EQ(shadow.flags, 0u);
    EXPECT_GT(std::fabs(seen.value[static_cast<size_t>(lane)] - sum), 1e-6) << lane;
  }
}

TEST(ShadowTest, LdmatrixMovesHalves) {
  const Seen seen = RunShadows(R"(
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra done;
  add.f32 %f3, %f1, %f1;
  cvt.rn.f16x2.f32 %r2, %f3, %f1;
  mov.u32 %r3, tile;
  shl.b32 %r4, %r1, 2;
  add.u32 %r4, %r3, %r4;
  st.shared.b32 [%r4], %r2;
  bar.warp.sync -1;
  and.b32 %r5, %r1, 7;
  shl.b32 %r5, %r5, 4;
  add.u32 %r5, %r3, %r5;
  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r5];
  mov.b32 {%h1, %h2}, %r6;
  cvt.f32.f16 %f4, %h1;
  cvt.f32.f16 %f5, %h2;
  add.f32 %f4, %f4, %f5;
  st.global.f32 [%rd2], %f4;
done:
)");
  ASSERT_EQ(seen.shadow.size(), size_t{kThreads});
  for (int lane = 0; lane < 32; ++lane) {
    const double want = Input(lane) + 2 * static_cast<double>(Input(lane));
    EXPECT_NEAR(seen.shadow[static_cast<size_t>(lane)].exact, want, 1e-12) << lane;
    EXPECT_EQ(seen.shadow[static_cast<size_t>(lane)].flags, 0u);
  }
}

TEST(ShadowTest, MinimumFollowsTheValue) {
  ExpectExact(std::string(kThirdOf) +
                  "min.f32 %f3, %f2, %f1; max.f32 %f3, %f3, 0f00000000; "
                  "st.global.f32 [%rd2], %f3;",
              [](double x) { return x / 3; });
}

}  // namespace
}  // namespace cupel::emu
