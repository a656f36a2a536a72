// Tests which uses of the registers of wgmma products are found.
// SPDX-License-Identifier: Apache-2.0
#include "emu/decode/wgmma_uses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ptx/parser.h"

namespace cupel::emu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// "3: read f1, write f2" for each place with uses.
std::vector<std::string> UsesOf(const std::string& body) {
  const auto module = ptx::Parse(
      ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n"
      ".reg .f32 %f<16>;\n.reg .b64 %a;\n.reg .pred %p;\n" +
      body + "ret;\n}\n");
  EXPECT_TRUE(module) << (module ? "" : module.error().message);
  if (!module) return {};
  const ptx::Function& function = module->functions[0];
  std::vector<std::string> lines;
  for (const auto& [at, uses] : WgmmaUsesOf(function)) {
    std::string line = std::to_string(at) + ":";
    for (const WgmmaUse& use : uses) {
      const char* names[] = {" read ", " write ", " constant ", " copy ", " sum "};
      line += names[static_cast<size_t>(use.touch)] +
              function.registers[static_cast<size_t>(use.reg)].name;
    }
    lines.push_back(line);
  }
  return lines;
}

const std::string kProduct =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %a, %a, 1, 1, 1, 0, "
    "0;\n";
const std::string kFence = "wgmma.fence.sync.aligned;\n";
const std::string kWait = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";

TEST(WgmmaUses, FindsReadsWhileAProductMayBeInProgress) {
  EXPECT_THAT(UsesOf(kFence + kProduct + "add.f32 %f8, %f0, %f5;\n" + kWait),
              ElementsAre("2: sum %f0"));
  EXPECT_THAT(UsesOf(kFence + kProduct + "mul.f32 %f8, %f0, %f5;\n" + kWait),
              ElementsAre("2: read %f0"));
  EXPECT_THAT(UsesOf(kFence + kProduct + kWait + "add.f32 %f8, %f0, %f5;\n"), IsEmpty());
}

TEST(WgmmaUses, FollowsCopies) {
  EXPECT_THAT(UsesOf(kFence + kProduct + "mov.f32 %f9, %f1;\nadd.f32 %f8, %f9, %f5;\n" + kWait),
              ElementsAre("3: copy %f9 sum %f9"));
}

TEST(WgmmaUses, FindsWritesAlsoBeforeTheFirstProduct) {
  EXPECT_THAT(UsesOf("mov.f32 %f0, 0f00000000;\nadd.f32 %f1, %f5, %f6;\n" + kFence + kProduct),
              ElementsAre("1: constant %f0 write %f1"));
}

TEST(WgmmaUses, KnowsWhatIsInProgressAroundALoop) {
  const std::string loop = "L:\nadd.f32 %f8, %f0, %f5;\n" + kFence + kProduct;
  EXPECT_THAT(UsesOf(loop + "@%p bra L;\n"), ElementsAre("0: sum %f0"));
  EXPECT_THAT(UsesOf(loop + kWait + "@%p bra L;\n"), IsEmpty());
}

TEST(WgmmaUses, IgnoresWhatMayNotBeExecutedAndOtherRegisters) {
  EXPECT_THAT(
      UsesOf(kFence + kProduct + "@%p add.f32 %f8, %f0, %f5;\nadd.f32 %f9, %f5, %f6;\n" + kWait),
      IsEmpty());
  EXPECT_THAT(UsesOf("add.f32 %f0, %f1, %f2;\n"), IsEmpty()) << "a kernel without wgmma";
}

}  // namespace
}  // namespace cupel::emu
