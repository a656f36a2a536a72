// Compares rare instructions with plain C++: narrow floats, packed values, vector atomics, wide
// accesses, and new warp-level instructions.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

/// `body` computes %d (or %dd) from the lane's %a, %b, %c (or %da …, with 64 bits).
std::string Program(const std::string& body, bool wide = false) {
  const std::string width = wide ? "64" : "32";
  const std::string d = wide ? "%dd" : "%d", a = wide ? "%da" : "%a", b = wide ? "%db" : "%b",
                    c = wide ? "%dc" : "%c";
  return ".version 9.0\n.target sm_100a\n.address_size 64\n"
         ".visible .entry k(.param .u64 pd, .param .u64 pa, .param .u64 pb, .param .u64 pc) {\n"
         ".reg .pred %p<4>; .reg .b8 %rb<4>; .reg .b16 %rs<8>; .reg .b32 %t, %a, %b, %c, %d, "
         "%r<9>; .reg .b64 %da, %db, %dc, %dd, %pa, %pb, %pc, %pd;\n"
         "mov.u32 %t, %tid.x;\n"
         "ld.param.u64 %pd, [pd]; ld.param.u64 %pa, [pa]; ld.param.u64 %pb, [pb]; ld.param.u64 "
         "%pc, [pc];\n"
         "mad.wide.u32 %pd, %t, " +
         std::to_string(wide ? 8 : 4) + ", %pd; mad.wide.u32 %pa, %t, " +
         std::to_string(wide ? 8 : 4) + ", %pa; mad.wide.u32 %pb, %t, " +
         std::to_string(wide ? 8 : 4) + ", %pb; mad.wide.u32 %pc, %t, " +
         std::to_string(wide ? 8 : 4) + ", %pc;\nld.global.b" + width + " " + a +
         ", [%pa]; ld.global.b" + width + " " + b + ", [%pb]; ld.global.b" + width + " " + c +
         ", [%pc];\n" + body + "\nst.global.b" + width + " [%pd], " + d + ";\nret; }\n";
}

template <class T>
std::vector<T> Computed(const std::string& body, std::vector<T> a, std::vector<T> b = {},
                        std::vector<T> c = {}) {
  const size_t count = a.size();
  for (std::vector<T>* values : {&a, &b, &c}) values->resize(32);
  Interpreter run(Program(body, sizeof(T) == 8));
  const uint64_t d = run.Buffer(std::vector<T>(32));
  const LaunchOutcome outcome =
      run.Launch("k", {1, 1, 1}, {32, 1, 1}, d, run.Buffer(a), run.Buffer(b), run.Buffer(c));
  EXPECT_TRUE(outcome.completed) << body << " " << Summary(outcome);
  return run.Read<T>(d, count);
}
using Words = std::vector<uint32_t>;
uint32_t Bits(float f) { return std::bit_cast<uint32_t>(f); }
Words BitsOf(const std::vector<float>& values) {
  Words words;
  for (float value : values) words.push_back(Bits(value));
  return words;
}
const float kInfinity = std::numeric_limits<float>::infinity();

TEST(RareTest, PackedIntegers) {
  EXPECT_EQ(Computed<uint32_t>("add.u16x2 %d, %a, %b;", {0xffff0001u}, {0x0001ffffu}), (Words{0}));
  EXPECT_EQ(Computed<uint32_t>("min.s16x2 %d, %a, %b;", {0xffff0001u}, {0x00010002u}),
            (Words{0xffff0001u}));
  EXPECT_EQ(Computed<uint32_t>("max.u16x2 %d, %a, %b;", {0xffff0001u}, {0x00010002u}),
            (Words{0xffff0002u}));
  EXPECT_EQ(Computed<uint32_t>("max.relu.s16x2 %d, %a, %b;", {0xfffffff0u}, {0xfffe0003u}),
            (Words{0x00000003u}));
  EXPECT_EQ(
      Computed<uint32_t>("dp2a.lo.s32.s32 %d, %a, %b, %c;", {0xfffe0003u}, {0x0000fd05u}, {100}),
      (Words{100 + 3 * 5 + 2 * 3}));
  EXPECT_EQ(
      Computed<uint32_t>("dp2a.hi.u32.u32 %d, %a, %b, %c;", {0x00020003u}, {0x04050607u}, {1}),
      (Words{1 + 3 * 5 + 2 * 4}));
  EXPECT_EQ(Computed<uint32_t>("vabsdiff4.u32.u32.u32.add %d, %a, %b, %c;", {0x01020304u},
                               {0x04030201u}, {10}),
            (Words{18}));
  EXPECT_EQ(Computed<uint32_t>("cvt.pack.sat.u8.s32.b32 %d, %a, %b, %c;", {300, 0xffffffffu},
                               {7, 8}, {0x1234, 0x5678}),
            (Words{0x1234ff07u, 0x56780008u}));
  EXPECT_EQ(Computed<uint32_t>("mul24.lo.s32 %d, %a, %b;", {0x00ffffffu}, {5}),
            (Words{static_cast<uint32_t>(-5)}));
  EXPECT_EQ(Computed<uint32_t>("szext.clamp.s32 %d, %a, %b;", {0xf0u, 0x70u, 9}, {8, 8, 0}),
            (Words{0xfffffff0u, 0x70u, 0}));
  EXPECT_EQ(Computed<uint32_t>("prmt.b32.f4e %d, %a, %b, %c;", {0x33221100u}, {0x77665544u}, {3}),
            (Words{0x66554433u}));
  EXPECT_EQ(Computed<uint32_t>("prmt.b32.b4e %d, %a, %b, %c;", {0x33221100u}, {0x77665544u}, {0}),
            (Words{0x55667700u}));
}

TEST(RareTest, ArithmeticGivesOneNan) {
  const Words operands = {0x7fc00000u, 0xffc00001u, 0x7f800001u};  // quiet, negative, signalling
  const Words one(3, 0x3f800000u), nan(3, 0x7fffffffu);
  for (const char* body :
       {"add.f32 %d, %a, %b;", "sub.f32 %d, %b, %a;", "mul.f32 %d, %a, %b;",
        "fma.rn.f32 %d, %b, %b, %a;", "mul.ftz.f32 %d, %a, %b;", "add.rz.f32 %d, %a, %b;",
        "div.rn.f32 %d, %a, %b;", "div.approx.f32 %d, %b, %a;", "rcp.approx.f32 %d, %a;",
        "rsqrt.approx.ftz.f32 %d, %a;", "sqrt.rn.f32 %d, %a;", "neg.f32 %d, %a;",
        "max.f32 %d, %a, %a;"}) {
    EXPECT_EQ(Computed<uint32_t>(body, operands, one), nan) << body;
  }
  EXPECT_EQ(Computed<uint32_t>("mul.f32 %d, %a, %b;", {Bits(kInfinity)}, {0}),
            (Words{0x7fffffffu}));
}

TEST(RareTest, RoundsEachFloatOfAPair) {
  const auto pair = [](float low, float high) { return uint64_t{Bits(high)} << 32 | Bits(low); };
  using Pairs = std::vector<uint64_t>;
  EXPECT_EQ(Computed<uint64_t>("fma.rn.f32x2 %dd, %da, %db, %dc;", {pair(3, -2)}, {pair(5, 7)},
                               {pair(1, 0.5F)}),
            (Pairs{pair(16, -13.5F)}));
  EXPECT_EQ(Computed<uint64_t>("add.rz.f32x2 %dd, %da, %db;", {pair(1, -1)}, {pair(1e-9F, 1e-9F)}),
            (Pairs{pair(1, std::nextafter(-1.0F, 0.0F))}));
  EXPECT_EQ(
      Computed<uint64_t>("mul.rn.ftz.f32x2 %dd, %da, %db;", {pair(1e-30F, 2)}, {pair(1e-10F, 3)}),
      (Pairs{pair(0, 6)}));
}

TEST(RareTest, NarrowFloats) {
  // e2m1 has 0, 0.5, 1, 1.5, 2, 3, 4, 6.
  const std::string e2m1 = "cvt.rn.satfinite.e2m1x2.f32 %rb1, %a, %b; cvt.u32.u8 %d, %rb1;";
  EXPECT_EQ(Computed<uint32_t>(e2m1, BitsOf({0.3F, 5.0F, -100.0F, 2.5F}),
                               BitsOf({0.25F, 1.25F, NAN, 1.75F})),
            (Words{0x10, 0x62, 0xf7, 0x44}));
  const std::string back = "cvt.u8.u32 %rb1, %a; cvt.rn.f16x2.e2m1x2 %d, %rb1;";
  EXPECT_EQ(Computed<uint32_t>(back, {0x71, 0x9e}), (Words{0x46003800u, 0xb800c400u}));
  // ue8m0 rounds to a power of two.
  const std::string scale = ".satfinite.ue8m0x2.f32 %rs1, %a, %b; cvt.u32.u16 %d, %rs1;";
  EXPECT_EQ(Computed<uint32_t>("cvt.rp" + scale, BitsOf({1.5F, 1.0F, NAN}),
                               BitsOf({4.0F, 1e-45F, kInfinity})),
            (Words{128 << 8 | 129, 127 << 8 | 0, 255 << 8 | 254}));
  EXPECT_EQ(Computed<uint32_t>("cvt.rz" + scale, BitsOf({1.5F}), BitsOf({7.9F})),
            (Words{127 << 8 | 129}));
  EXPECT_EQ(Computed<uint32_t>("cvt.u16.u32 %rs1, %a; cvt.rn.bf16x2.ue8m0x2 %d, %rs1;", {0x807fu}),
            (Words{0x40003f80u}));
}

TEST(RareTest, DirectedRoundingsToHalves) {
  const std::string tail = ".f16.f32 %rs1, %a; cvt.u32.u16 %d, %rs1;";
  const auto inputs = BitsOf({1.0001F, -1.0001F, 1e-9F, -1e-9F, 70000.0F, 1.0F, -70000.0F});
  EXPECT_EQ(Computed<uint32_t>("cvt.rm" + tail, inputs),
            (Words{0x3c00, 0xbc01, 0, 0x8001, 0x7bff, 0x3c00, 0xfc00}));
  EXPECT_EQ(Computed<uint32_t>("cvt.rp" + tail, inputs),
            (Words{0x3c01, 0xbc00, 1, 0x8000, 0x7c00, 0x3c00, 0xfbff}));
  EXPECT_EQ(Computed<uint32_t>("cvt.rz" + tail, inputs),
            (Words{0x3c00, 0xbc00, 0, 0x8000, 0x7bff, 0x3c00, 0xfbff}));
  EXPECT_EQ(Computed<uint32_t>("cvt.rp.bf16.s32 %rs1, %a; cvt.u32.u16 %d, %rs1;", {257}),
            (Words{0x4381}));
  EXPECT_EQ(Computed<uint32_t>("cvt.rn.satfinite.f16.f32 %rs1, %a; cvt.u32.u16 %d, %rs1;",
                               BitsOf({1e9F, -kInfinity})),
            (Words{0x7bff, 0xfbff}));
  EXPECT_EQ(
      Computed<uint32_t>("cvt.rna.satfinite.tf32.f32 %d, %a;",
                         BitsOf({1.0F + 0x1p-11F, kInfinity, std::numeric_limits<float>::max()})),
      (Words{Bits(1.0F + 0x1p-10F), 0x7f7fe000u, 0x7f7fe000u}));
}

TEST(RareTest, HalvesWithFlushing) {
  // 0x0200 is subnormal; 0x0400 the smallest normal.
  EXPECT_EQ(Computed<uint32_t>("add.ftz.f16x2 %d, %a, %b;", {0x02003c00u}, {0x04003c00u}),
            (Words{0x04004000u}));
  EXPECT_EQ(Computed<uint32_t>("mul.ftz.f16x2 %d, %a, %b;", {0x0400bc00u}, {0x38003c00u}),
            (Words{0x0000bc00u}));
  EXPECT_EQ(
      Computed<uint32_t>("setp.gt.ftz.f16x2 %p1|%p2, %a, %b; selp.b32 %r1, 1, 0, %p1; selp.b32 "
                         "%d, 2, 0, %p2; or.b32 %d, %d, %r1;",
                         {0x02004000u}, {0x00003c00u}),
      (Words{1}));
}

TEST(RareTest, ThreeOperandsAndMagnitudes) {
  EXPECT_EQ(Computed<uint32_t>("max.f32 %d, %a, %b, %c;", BitsOf({1, NAN}), BitsOf({3, 2}),
                               BitsOf({2, NAN})),
            (Words{Bits(3), Bits(2)}));
  EXPECT_EQ(Computed<uint32_t>("min.f32 %d, %a, %b, %c;", BitsOf({1}), BitsOf({3}), BitsOf({-2})),
            (Words{Bits(-2)}));
  EXPECT_EQ(
      Computed<uint32_t>("max.xorsign.abs.f32 %d, %a, %b;", BitsOf({-1, -3}), BitsOf({2, -2})),
      (Words{Bits(-2), Bits(3)}));
  EXPECT_EQ(Computed<uint32_t>("cvt.u16.u32 %rs1, %a; fma.rn.f32.f16 %d, %rs1, %rs1, %b;",
                               {0x4200u}, BitsOf({0.5F})),
            (Words{Bits(9.5F)}));
}

TEST(RareTest, WarpsReduceFloatsAndElect) {
  std::vector<float> values(32);
  for (int i = 0; i < 32; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i % 7) - 5;
  values[9] = NAN;
  EXPECT_EQ(Computed<uint32_t>("redux.sync.min.f32 %d, %a, -1;", BitsOf(values))[3], Bits(-5));
  EXPECT_EQ(Computed<uint32_t>("redux.sync.max.abs.f32 %d, %a, -1;", BitsOf(values))[3], Bits(5));
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(
      Computed<uint32_t>("redux.sync.max.NaN.f32 %d, %a, -1;", BitsOf(values))[3])));
  // Lanes 4 to 31 elect the lowest of their mask.
  const Words elected = Computed<uint32_t>(
      "mov.u32 %d, 99; setp.lt.u32 %p1, %t, 4; @%p1 bra DONE; elect.sync %r1|%p2, 0xfffffff0; "
      "selp.b32 %d, 100, 0, %p2; add.u32 %d, %d, %r1; DONE:",
      Words(32));
  EXPECT_EQ(elected[0], 99u);
  EXPECT_EQ(elected[4], 104u);
  EXPECT_EQ(elected[31], 4u);
}

TEST(RareTest, SpacesOfGenericAddresses) {
  const Words spaces = Computed<uint32_t>(
      ".shared .b32 s; mov.u64 %da, s; cvta.shared.u64 %da, %da; isspacep.shared %p1, %da; "
      "isspacep.global %p2, %pd; isspacep.global %p3, %da; selp.b32 %d, 1, 0, %p1; "
      "@%p2 add.u32 %d, %d, 2; @%p3 add.u32 %d, %d, 4;",
      {0});
  EXPECT_EQ(spaces[0], 3u);
}

TEST(RareTest, VectorsInGlobalMemory) {
  const std::string head =
      ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 p, .param "
      ".u64 q) {\n.reg .b32 %r<16>; .reg .f32 %f<16>; .reg .b64 %p, %q;\nld.param.u64 %p, [p]; "
      "ld.param.u64 %q, [q];\n";
  {
    Interpreter run(head +
                    "ld.global.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%p]; st.global.v8.b32 "
                    "[%q+32], {%r8,%r7,%r6,%r5,%r4,%r3,%r2,%r1}; ret; }");
    const uint64_t from = run.Buffer(Words{1, 2, 3, 4, 5, 6, 7, 8}), to = run.Buffer(Words(16));
    ASSERT_TRUE(run.Launch("k", {1, 1, 1}, {1, 1, 1}, from, to).completed);
    EXPECT_EQ(run.Read<uint32_t>(to + 32, 8), (Words{8, 7, 6, 5, 4, 3, 2, 1}));
    const LaunchOutcome outcome = run.Launch("k", {1, 1, 1}, {1, 1, 1}, from, to + 16);
    ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
    EXPECT_EQ(outcome.findings[0].code, "misaligned") << "16 bytes are not enough";
  }
  {
    Interpreter run(head +
                    "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; red.global.add.v2.f32 [%p], "
                    "{%f1, %f2}; atom.global.add.v4.f32 {%f3,%f4,%f5,%f6}, [%p], "
                    "{%f1,%f1,%f2,%f2}; st.global.v4.f32 [%q], {%f3,%f4,%f5,%f6}; ret; }");
    const uint64_t sums = run.Buffer(std::vector<float>{10, 20, 30, 40});
    const uint64_t before = run.Buffer(std::vector<float>(4));
    ASSERT_TRUE(run.Launch("k", {1, 1, 1}, {1, 1, 1}, sums, before).completed);
    EXPECT_EQ(run.Read<float>(before, 4), (std::vector<float>{11, 22, 30, 40}));
    EXPECT_EQ(run.Read<float>(sums, 4), (std::vector<float>{12, 23, 32, 42}));
  }
  {
    Interpreter run(head +
                    "mov.b32 %r1, 0x3c004000; mov.b32 %r2, 0xbc000000; red.global.add.noftz.v2"
                    ".f16x2 [%p], {%r1, %r2}; red.global.max.noftz.v2.f16x2 [%q], {%r1, %r2}; "
                    "ret; }");
    const uint64_t sums = run.Buffer(Words{0x3c003c00u, 0x3c003c00u});
    const uint64_t most = run.Buffer(Words{0x3c003c00u, 0x3c003c00u});
    ASSERT_TRUE(run.Launch("k", {1, 1, 1}, {1, 1, 1}, sums, most).completed);
    EXPECT_EQ(run.Read<uint32_t>(sums, 2), (Words{0x40004200u, 0x00003c00u}));
    EXPECT_EQ(run.Read<uint32_t>(most, 2), (Words{0x3c004000u, 0x3c003c00u}));
  }
}

// The harness does not know the registers at the launch, so setmaxnreg has no effect either.
TEST(RareTest, CacheHintsHaveNoEffect) {
  const Words values = Computed<uint32_t>(
      "griddepcontrol.wait; setmaxnreg.dec.sync.aligned.u32 40; fence.proxy.async; "
      "createpolicy.fractional.L2::evict_last.b64 %da; "
      "ld.global.L2::cache_hint.u32 %d, [%pa], %da; barrier.cluster.arrive; barrier.cluster.wait; "
      "griddepcontrol.launch_dependents;",
      {5, 6, 7});
  EXPECT_EQ(values, (Words{5, 6, 7}));
}

}  // namespace
}  // namespace cupel::emu
