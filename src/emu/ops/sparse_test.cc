// Tests products with a sparse A: metadata that PTX leaves undefined, and shadows. The values are
// compared in tests/reference.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"
#include "emu/shadow/shadow_testing.h"

namespace cupel::emu {
namespace {

/// D = A * B with the same metadata in all lanes. A's pairs are (1, 2); row k of B is k + 1.
std::vector<float> SparseProduct(const std::string& kind, uint32_t metadata, uint32_t pair,
                                 LaunchOutcome* outcome) {
  Interpreter emu(
      ".version 8.5\n.target sm_90\n.address_size 64\n"
      ".visible .entry k(.param .u64 out, .param .u32 e, .param .u32 a)\n{\n"
      ".reg .b16 %h<4>; .reg .b32 %t, %e, %a, %b<2>; .reg .f32 %f, %d<4>; .reg .b64 %out, %at;\n"
      "ld.param.u64 %out, [out];\nld.param.u32 %e, [e];\nld.param.u32 %a, [a];\n"
      "mov.u32 %t, %tid.x;\nmul.wide.u32 %at, %t, 16;\nadd.s64 %out, %out, %at;\n"
      "and.b32 %t, %t, 3;\nshl.b32 %t, %t, 1;\nadd.u32 %t, %t, 1;\n"
      "cvt.rn.f32.u32 %f, %t;\ncvt.rn.f16.f32 %h0, %f;\nadd.f32 %f, %f, 0f3f800000;\n"
      "cvt.rn.f16.f32 %h1, %f;\nadd.f32 %f, %f, 0f40e00000;\ncvt.rn.f16.f32 %h2, %f;\n"
      "add.f32 %f, %f, 0f3f800000;\ncvt.rn.f16.f32 %h3, %f;\n"
      "mov.b32 %b0, {%h0, %h1};\nmov.b32 %b1, {%h2, %h3};\n"
      "mov.f32 %d0, 0f00000000;\nmov.f32 %d1, %d0;\nmov.f32 %d2, %d0;\nmov.f32 %d3, %d0;\n"
      "mma" +
      kind +
      ".sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d0, %d1, %d2, %d3}, {%a, %a}, "
      "{%b0, %b1}, {%d0, %d1, %d2, %d3}, %e, 2;\n"
      "st.global.v4.f32 [%out], {%d0, %d1, %d2, %d3};\nret;\n}\n");
  const uint64_t out = emu.Buffer(std::vector<float>(128));
  *outcome = emu.Launch("k", {1, 1, 1}, {32, 1, 1}, out, metadata, pair);
  return emu.Read<float>(out, 128);
}

constexpr uint32_t kOneAndTwo = 0x40003c00;

TEST(SparseTest, MultipliesByTheRowsThatTheMetadataNames) {
  LaunchOutcome outcome;
  // Rows 4c and 4c + 1 of each chunk c: the sum of (4c + 1) + 2 (4c + 2).
  EXPECT_EQ(SparseProduct(".sp::ordered_metadata", 0x44444444, kOneAndTwo, &outcome)[0], 92.0F);
  EXPECT_EQ(Summary(outcome), "");
  EXPECT_EQ(SparseProduct(".sp", 0xeeeeeeee, kOneAndTwo, &outcome)[127], 116.0F);
  EXPECT_EQ(SparseProduct(".sp", 0x11111111, kOneAndTwo, &outcome)[0], 88.0F);  // descending
  EXPECT_EQ(Summary(outcome), "");
}

TEST(SparseTest, FindsInvalidMetadata) {
  for (const auto& [kind, metadata] :
       {std::pair(".sp", 0u), {".sp::ordered_metadata", 0x11111111u}}) {
    LaunchOutcome outcome;
    SparseProduct(kind, metadata, kOneAndTwo, &outcome);
    ASSERT_EQ(outcome.findings.size(), 1u);
    EXPECT_EQ(outcome.findings[0].code, "invalid_metadata");
    EXPECT_EQ(SparseProduct(kind, metadata, 0, &outcome)[0], 0.0F);  // zeros may be anywhere
    EXPECT_EQ(Summary(outcome), "");
  }
}

TEST(SparseTest, ShadowsKeepExactValues) {
  // Each row of A has x / 10, rounded to a half, at column 2; B is 1 everywhere.
  const Seen seen = RunShadows(
      "mul.f32 %f2, %f1, 0f3dcccccd;\ncvt.rn.f16.f32 %h1, %f2;\nmov.u16 %h2, 0;\n"
      "mov.b32 %r2, {%h1, %h2};\nmov.u32 %r3, 0x3c003c00;\nmov.u32 %r4, 0xeeeeeeee;\n"
      "and.b32 %r5, %r1, 3;\nsetp.ne.u32 %p1, %r5, 0;\nselp.b32 %r2, 0, %r2, %p1;\n"
      "mov.f32 %f3, 0f00000000;\nmov.f32 %f4, %f3;\nsetp.gt.u32 %p2, %r1, 31;\n@%p2 bra END;\n"
      "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r2, %r2}, "
      "{%r3, %r3}, {%f3, %f3, %f3, %f3}, %r4, 0;\nEND: st.global.f32 [%rd2], %f4;");
  ASSERT_EQ(seen.shadow.size(), size_t{kThreads});
  for (size_t i = 0; i < 32; ++i) {
    const double exact = Input(static_cast<int>(i / 4 * 4)) * double{0.1F};
    EXPECT_NEAR(seen.shadow[i].exact, exact, 1e-14) << i;
    EXPECT_NE(seen.value[i], exact) << "a half is less precise";
    EXPECT_EQ(seen.shadow[i].flags, 0u) << i;
  }
}

}  // namespace
}  // namespace cupel::emu
