// Shadow values through the interpreter: what they follow, where they reset, and that values are
// left alone.
// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow.h"

#include <cmath>

#include "emu/interpreter_testing.h"

namespace cupel::emu {
namespace {

/// One thread's program over `in` (float32) with results in `out`; %rd1 and %rd2 point to them.
std::string Kernel(const std::string& body) {
  std::string text = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {
  .reg .b64 %rd<20>;
  .reg .b32 %r<20>;
  .reg .f32 %f<20>;
  .reg .f64 %d<20>;
  .reg .b16 %h<20>;
  .reg .pred %p<10>;
  .local .align 16 .b8 stack[64];
  .shared .align 16 .b8 tile[512];
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd1, %rd1, %rd3;
  add.u64 %rd2, %rd2, %rd3;
  ld.global.f32 %f1, [%rd1];
)";
  text += body;
  text += "\n  ret;\n}\n";
  return text;
}

struct Seen {
  std::vector<float> value;
  std::vector<Shadow> shadow;
};

constexpr int kThreads = 40;  // a full warp and a part of one

float Input(int i) { return 1.0F + 0.37F * static_cast<float>(i); }

/// Runs `body` on Input(0…) and returns what `out` holds. Values must be those of a plain run.
Seen RunShadows(const std::string& body, uint64_t schedule = 0) {
  Seen seen;
  std::vector<float> inputs;
  for (int i = 0; i < kThreads; ++i) inputs.push_back(Input(i));
  std::vector<float> plain;
  for (const bool with : {false, true}) {
    Interpreter emu(Kernel(body));
    auto run = ShadowRun::Create();
    EXPECT_TRUE(run);
    if (with) emu.shadows = run->get();
    emu.options.schedule = schedule;
    const uint64_t in = emu.Buffer(inputs), out = emu.Buffer(std::vector<float>(kThreads));
    const LaunchOutcome outcome = emu.Launch("k", {1}, {kThreads}, in, out);
    EXPECT_TRUE(outcome.completed) << Summary(outcome) << body;
    if (!outcome.completed) return seen;
    seen.value = emu.Read<float>(out, kThreads);
    if (!with) {
      plain = seen.value;
      continue;
    }
    for (int i = 0; i < kThreads; ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(plain[static_cast<size_t>(i)]),
                std::bit_cast<uint32_t>(seen.value[static_cast<size_t>(i)]))
          << body;
      seen.shadow.push_back(
          (*run)->memory().Read(out + 4 * static_cast<uint64_t>(i), DType::kF32,
                                std::bit_cast<uint32_t>(seen.value[static_cast<size_t>(i)])));
    }
  }
  return seen;
}

/// The shadow is f of the input, unflagged and to double precision.
void ExpectExact(const std::string& body, double (*f)(double)) {
  const Seen seen = RunShadows(body);
  ASSERT_EQ(seen.shadow.size(), size_t{kThreads}) << body;
  for (int i = 0; i < kThreads; ++i) {
    const double want = f(Input(i));
    EXPECT_NEAR(seen.shadow[static_cast<size_t>(i)].exact, want, 1e-14 * std::fabs(want))
        << body << i;
    EXPECT_EQ(seen.shadow[static_cast<size_t>(i)].flags, 0u) << body << i;
  }
}
void ExpectFlags(const std::string& body, uint32_t flags) {
  const Seen seen = RunShadows(body);
  ASSERT_EQ(seen.shadow.size(), size_t{kThreads}) << body;
  for (const Shadow& shadow : seen.shadow) EXPECT_EQ(shadow.flags, flags) << body;
}

const char* const kThird = "div.rn.f32 %f2, %f1, 0f40400000;\n";  // x / 3: inexact

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

TEST(ShadowTest, HalvesKeepWhatTheyRoundAway) {
  ExpectExact(
      "cvt.rn.f16.f32 %h1, %f1; add.f16 %h1, %h1, %h1; cvt.f32.f16 %f2, %h1; "
      "st.global.f32 [%rd2], %f2;",
      [](double x) { return 2 * x; });
  // Both halves of a pair, taken apart by mov and by prmt.
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
  const std::string third = kThird;
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
  const Seen seen = RunShadows(std::string(kThird) +
                               "sub.u64 %rd4, %rd2, %rd3; atom.global.add.f32 %f3, [%rd4], %f2; "
                               "bar.sync 0;");
  double sum = 0;
  for (int i = 0; i < kThreads; ++i) sum += Input(i) / 3.0;
  EXPECT_NEAR(seen.shadow[0].exact, sum, 1e-12);
  EXPECT_EQ(seen.shadow[0].flags, 0u);
  EXPECT_NE(seen.shadow[0].exact, static_cast<double>(seen.value[0]));
}

TEST(ShadowTest, AnIntegerCompareAndSwapLoopAddsShadows) {
  const Seen seen = RunShadows(std::string(kThird) + R"(
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
  const std::string third = kThird;
  const std::string end = "mov.b32 %f3, %r3; st.global.f32 [%rd2], %f3;";
  ExpectFlags(third + "mov.b32 %r2, %f2; add.u32 %r3, %r2, 1;" + end, kReset);
  ExpectFlags(third + "mov.b32 %r2, %f2; and.b32 %r3, %r2, 0xffffe000;" + end, kReset);
  ExpectFlags("mov.b32 %r2, %f1; and.b32 %r3, %r2, 0xffffe000;" + end, kReset);  // as loaded
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
  const Seen seen = RunShadows(third + "mov.b32 %r2, %f2; add.u32 %r3, %r2, 1;" + end);
  EXPECT_EQ(seen.shadow[3].exact, static_cast<double>(seen.value[3]));
}

TEST(ShadowTest, ADecisionThatRoundingTakesIsFlagged) {
  // x / 3 * 3 is or is not x: exact arithmetic says it is.
  const std::string product = std::string(kThird) + "mul.f32 %f3, %f2, 0f40400000;\n";
  const std::string close = product + "setp.lt.f32 %p1, %f3, %f1;\n";
  const Seen seen = RunShadows(close + "selp.f32 %f4, %f1, %f2, %p1; st.global.f32 [%rd2], %f4;");
  int flagged = 0;
  for (const Shadow& shadow : seen.shadow) flagged += shadow.flags == kBranch;
  EXPECT_GT(flagged, 0);
  ExpectFlags(product +
                  "setp.lt.f32 %p1, %f3, 0f00000000; selp.f32 %f4, %f1, %f2, %p1; "
                  "st.global.f32 [%rd2], %f4;",
              0);
  // A branch flags all that its lanes write afterwards.
  const Seen branched = RunShadows(close +
                                   "mov.f32 %f4, 0f3F800000;\n@%p1 bra skip;\n"
                                   "mov.f32 %f4, 0f40000000;\nskip:\n"
                                   "st.global.f32 [%rd2], %f4;");
  int after = 0;
  for (const Shadow& shadow : branched.shadow) after += shadow.flags == kBranch;
  EXPECT_EQ(after, flagged);
}

TEST(ShadowTest, AnUnknownWriterDoesNotLeaveALie) {
  // The store of 16 bits changes the float behind its shadow's back.
  const Seen seen = RunShadows(std::string(kThird) +
                               "st.global.f32 [%rd2], %f2; mov.b16 %h1, 0x1234; "
                               "st.global.b16 [%rd2], %h1;");
  for (size_t i = 0; i < size_t{kThreads}; ++i) {
    EXPECT_EQ(seen.shadow[i].exact, static_cast<double>(seen.value[i]));
  }
}

TEST(ShadowTest, MatrixProductsAddShadows) {
  // a holds x / 3 rounded to tf32, b ones: each line of d is twice the sum of four lanes' x / 3.
  const Seen seen = RunShadows(std::string(kThird) + R"(
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
  ExpectExact(std::string(kThird) +
                  "min.f32 %f3, %f2, %f1; max.f32 %f3, %f3, 0f00000000; "
                  "st.global.f32 [%rd2], %f3;",
              [](double x) { return x / 3; });
}

}  // namespace
}  // namespace cupel::emu
