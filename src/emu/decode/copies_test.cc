// SPDX-License-Identifier: Apache-2.0

#include "emu/decode/copies.h"

#include <gtest/gtest.h>

#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

/// Runs a loop of three iterations, with %n = 10, 20, 30, and returns %sum. `body` may keep a copy
/// for the next iteration; %later is true after the first iteration.
uint32_t RunLoop(const std::string& body) {
  Interpreter interpreter(R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .b32 %n, %new, %old, %sum; .reg .b64 %out; .reg .pred %later, %more;
ld.param.u64 %out, [out];
mov.u32 %sum, 0;
mov.u32 %n, 0;
setp.ne.u32 %later, 0, 0;
LOOP:
add.u32 %n, %n, 10;
)" + body + R"(
setp.eq.u32 %later, 0, 0;
setp.lt.u32 %more, %n, 30;
@%more bra LOOP;
st.global.u32 [%out], %sum;
ret;
}
)");
  const uint64_t out = interpreter.Buffer(std::vector<uint32_t>(1, 0));
  const LaunchOutcome outcome = interpreter.Launch("k", {1}, {1}, out);
  EXPECT_TRUE(outcome.completed) << Summary(outcome);
  return interpreter.Read<uint32_t>(out, 1)[0];
}

TEST(Copies, KeepPreviousIterationsValue) {
  EXPECT_EQ(RunLoop("add.u32 %new, %n, 1;\n@%later add.u32 %sum, %sum, %old;\nmov.u32 %old, %new;"),
            11u + 21u);
}

TEST(Copies, KeepTheirValueWhenSkipped) {
  // The second iteration jumps over the copy.
  EXPECT_EQ(RunLoop("add.u32 %new, %n, 1;\nsetp.eq.u32 %more, %n, 20;\n@%more bra OVER;\n"
                    "mov.u32 %old, %new;\nOVER: add.u32 %sum, %sum, %old;"),
            11u + 11u + 31u);
}

TEST(Copies, MatchOriginalInTheSameIteration) {
  EXPECT_EQ(RunLoop("add.u32 %new, %n, 1;\nmov.u32 %old, %new;\nadd.u32 %sum, %sum, %old;"),
            11u + 21u + 31u);
}

TEST(Copies, RulesDistinguishLoopsFromStraightLineCode) {
  const auto module = ptx::Parse(R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{
.reg .b32 %a<4>; .reg .pred %p;
add.u32 %a0, 1, 2;
L: add.u32 %a1, %a0, 1;
mov.u32 %a2, %a1;
add.u32 %a3, %a2, %a1;
@%p bra L;
ret;
}
)");
  ASSERT_TRUE(module);
  const ptx::Function& function = module->functions.at(0);
  const CopyRules rules(function);
  const int copied = function.body.at(2).operands.at(0).reg;
  EXPECT_TRUE(rules.AlwaysEqual(copied, 0, 4));   // written before the loop
  EXPECT_TRUE(rules.AlwaysEqual(copied, 1, 2));   // nothing in between
  EXPECT_FALSE(rules.AlwaysEqual(copied, 1, 4));  // an instruction in between reads the copy
}

}  // namespace
}  // namespace cupel::emu
