// SPDX-License-Identifier: Apache-2.0
#include "emu/decode/shared_fusion.h"

#include <gtest/gtest.h>

#include <string>

#include "ptx/parser.h"

namespace cupel::emu {
namespace {

/// Fusions of the kernel's shared accesses, in order: "16" is a leader, "-" a member, "." not
/// fused.
std::string Fusions(const std::string& body) {
  const std::string text =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry k()\n{\n"
      ".reg .pred %p<4>;\n.reg .b32 %r<20>;\n.reg .f32 %f<20>;\n"
      ".shared .align 4 .b8 buffer[4096];\n"
      "mov.u32 %r1, %tid.x;\nmov.u32 %r2, buffer;\n" +
      body + "\nret;\n}\n";
  auto module = ptx::Parse(text);
  EXPECT_TRUE(module) << (module ? "" : module.error().message);
  if (!module) return "";
  const ptx::Function& function = module->functions[0];
  std::string result;
  const auto fusions = FuseSharedAccesses(function);
  for (size_t i = 0; i < fusions.size(); ++i) {
    if (function.body[i].op != ptx::Opcode::kLd && function.body[i].op != ptx::Opcode::kSt)
      continue;
    if (!function.body[i].Has(ptx::Modifier::kShared)) continue;
    if (!result.empty()) result += ' ';
    result += fusions[i].is_member    ? "-"
              : fusions[i].bytes == 0 ? "."
                                      : std::to_string(fusions[i].bytes);
  }
  return result;
}

constexpr const char* kFourLoads = R"(
  ld.shared.f32 %f1, [%r4];
  ld.shared.f32 %f2, [%r4+4];
  ld.shared.f32 %f3, [%r4+8];
  ld.shared.f32 %f4, [%r4+12];)";

TEST(SharedFusion, FusesFourAlignedWords) {
  const std::string aligned = "shl.b32 %r3, %r1, 4;\nadd.s32 %r4, %r2, %r3;";
  EXPECT_EQ(Fusions(aligned + kFourLoads), "16 - - -");
}

TEST(SharedFusion, OrderDoesNotMatter) {
  EXPECT_EQ(Fusions(R"(shl.b32 %r3, %r1, 4;
  add.s32 %r4, %r2, %r3;
  ld.shared.f32 %f1, [%r4+8];
  ld.shared.f32 %f2, [%r4+12];
  ld.shared.f32 %f3, [%r4+4];
  ld.shared.f32 %f4, [%r4];)"),
            "16 - - -");
}

TEST(SharedFusion, DoesNotFuseWordsOfUnknownAlignment) {
  const std::string words = "shl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r2, %r3;";
  EXPECT_EQ(Fusions(words + kFourLoads), ". . . .");
  const std::string pairs = "shl.b32 %r3, %r1, 3;\nadd.s32 %r4, %r2, %r3;";
  EXPECT_EQ(Fusions(pairs + kFourLoads), "8 - 8 -");
}

TEST(SharedFusion, DoesNotFuseAcrossStoresAndBarriers) {
  const std::string aligned = "shl.b32 %r3, %r1, 4;\nadd.s32 %r4, %r2, %r3;\n";
  EXPECT_EQ(Fusions(aligned + R"(ld.shared.f32 %f1, [%r4];
  ld.shared.f32 %f2, [%r4+4];
  bar.sync 0;
  ld.shared.f32 %f3, [%r4+8];
  ld.shared.f32 %f4, [%r4+12];)"),
            "8 - 8 -");
  EXPECT_EQ(Fusions(aligned + R"(ld.shared.f32 %f1, [%r4];
  st.shared.f32 [%r4+64], %f1;
  ld.shared.f32 %f2, [%r4+4];)"),
            ". . .");
}

TEST(SharedFusion, FollowsLoopCounters) {
  EXPECT_EQ(Fusions(std::string("mov.u32 %r4, buffer;\nLOOP:") + kFourLoads +
                    "\nadd.s32 %r4, %r4, 16;\nsetp.lt.u32 %p1, %r4, 256;\n@%p1 bra LOOP;"),
            "16 - - -");
  EXPECT_EQ(Fusions(std::string("mov.u32 %r4, buffer;\nLOOP:") + kFourLoads +
                    "\nadd.s32 %r4, %r4, 4;\nsetp.lt.u32 %p1, %r4, 256;\n@%p1 bra LOOP;"),
            ". . . .");
}

TEST(SharedFusion, FusesNeighbouringVariables) {
  EXPECT_EQ(Fusions(R"(.shared .align 4 .f32 mean;
  .shared .align 4 .f32 scale;
  st.shared.f32 [mean], 0f00000000;
  st.shared.f32 [scale], 0f00000000;
  bar.sync 0;
  ld.shared.f32 %f1, [scale];
  ld.shared.f32 %f2, [mean];)"),
            "8 - 8 -");
}

TEST(SharedFusion, DoesNotFuseAcrossAnOverwrittenBase) {
  EXPECT_EQ(Fusions(R"(shl.b32 %r3, %r1, 4;
  add.s32 %r4, %r2, %r3;
  ld.shared.f32 %f1, [%r4];
  add.s32 %r4, %r4, 16;
  ld.shared.f32 %f2, [%r4+4];)"),
            ". .");
}

}  // namespace
}  // namespace cupel::emu
