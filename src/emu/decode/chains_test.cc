// SPDX-License-Identifier: Apache-2.0
#include "emu/decode/chains.h"

#include <gtest/gtest.h>

#include <string>

#include "ptx/parser.h"

namespace cupel::emu {
namespace {

std::vector<Chain> Chains(const std::string& body) {
  const auto module = ptx::Parse(
      ".version 8.0\n.target sm_90\n.address_size 64\n.shared .align 4 .b8 s[64];\n"
      ".visible .entry k() {\n.reg .f32 %f<9>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n"
      ".reg .pred %p<4>;\n" +
      body + "\n}\n");
  EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().message);
  return module ? ChainsOf(module->functions.at(0)) : std::vector<Chain>{};
}

TEST(Chains, IndependentLoadsOverlap) {
  const auto chains = Chains(
      "ld.global.f32 %f1, [%rd1];\nld.global.f32 %f2, [%rd1+4];\nld.global.f32 %f3, [%rd1+8];\n"
      "add.f32 %f4, %f1, %f2;\nadd.f32 %f4, %f4, %f3;\nret;");
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_EQ(chains[0].loads, 1u);
  EXPECT_EQ(chains[0].clocks, 9u);
}

TEST(Chains, DependentLoadsAddUp) {
  const auto chains = Chains(
      "ld.global.u64 %rd1, [%rd1];\nld.global.u64 %rd1, [%rd1];\nld.global.u64 %rd1, "
      "[%rd1];\nret;");
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_EQ(chains[0].loads, 3u);
}

TEST(Chains, CountsOneClockPerInstructionAndNoneForMoves) {
  const auto busy = Chains(
      "add.s32 %r1, %r5, 1;\nadd.s32 %r2, %r5, 2;\nadd.s32 %r3, %r5, 3;\nadd.s32 %r4, %r5, 4;\n"
      "add.s32 %r6, %r5, 1;\nadd.s32 %r7, %r5, 2;\nret;");
  ASSERT_EQ(busy.size(), 1u);
  EXPECT_EQ(busy[0].clocks, 7u);
  const auto moves = Chains("mov.b32 %r1, %f1;\nmov.b32 %f2, %r1;\nmov.b32 %r2, %f2;\nret;");
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_LE(moves[0].clocks, 5u);
}

TEST(Chains, EndAtBasicBlockBoundaries) {
  const auto chains = Chains(
      "ld.shared.f32 %f1, [s];\nsetp.gt.f32 %p1, %f1, %f2;\n@%p1 bra L;\n"
      "ld.global.f32 %f3, [%rd1];\nL:\nfma.rn.f32 %f4, %f3, %f3, %f1;\nret;");
  ASSERT_EQ(chains.size(), 3u);
  EXPECT_EQ(chains[0].shared_loads, 1u);
  EXPECT_EQ(chains[0].loads, 0u);
  EXPECT_EQ(chains[1].loads, 1u);
  EXPECT_EQ(chains[2].loads + chains[2].shared_loads, 0u);
  EXPECT_EQ(chains[0].end, chains[1].begin);
}

TEST(Chains, CountsAtomicsOnlyIfTheirResultIsRead) {
  EXPECT_EQ(Chains("atom.global.add.f32 %f1, [%rd1], %f2;\nret;")[0].loads, 0u);
  EXPECT_EQ(Chains("atom.global.add.f32 %f1, [%rd1], %f2;\nadd.f32 %f3, %f1, %f1;\nret;")[0].loads,
            1u);
}

}  // namespace
}  // namespace cupel::emu
