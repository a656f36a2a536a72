// Tests registers that are used before they have a value.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "emu/core/code.h"
#include "emu/core/kernel.h"
#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

/// y[0] = x for lanes below the parameter. Other lanes store a register without a value.
std::string KernelAround(const std::string& between) {
  return R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 y, .param .u32 n) {
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;
ld.param.u64 %rd1, [y];
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
mul.wide.u32 %rd2, %r2, 4;
add.s64 %rd3, %rd1, %rd2;
setp.lt.u32 %p1, %r2, %r1;
)" + between +
         R"(
st.global.u32 [%rd3], %r4;
ret; }
)";
}

constexpr const char* kSometimes = "@%p1 mov.u32 %r3, 7;\nmov.u32 %r4, %r3;\nadd.s32 %r4, %r3, 1;";
constexpr const char* kCopied = R"(@%p1 mov.u32 %r3, 7;
mov.u32 %r5, %r3;
mov.u32 %r4, 9;
@%p1 add.s32 %r4, %r3, 2;)";

LaunchOutcome Launched(const char* between, int n) {
  Interpreter emu(KernelAround(between));
  emu.options.full_checks = true;
  return emu.Launch("k", {1}, {32}, emu.Buffer(std::vector<int>(32)), n);
}

TEST(Undefined, DetectsUseOfARegisterWithoutAValue) {
  EXPECT_TRUE(Launched(kSometimes, 32).completed);
  const LaunchOutcome outcome = Launched(kSometimes, 20);
  ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
  EXPECT_EQ(outcome.findings[0].code, "uninitialized_register");
  EXPECT_EQ(outcome.findings[0].thread, (plan::Dim3{20, 0, 0}));
}

TEST(Undefined, IgnoresCopiesAndUnusedPaths) {
  const LaunchOutcome outcome = Launched(kCopied, 20);
  EXPECT_TRUE(outcome.completed && outcome.findings.empty()) << Summary(outcome);
}

TEST(Undefined, CompiledKernelsNeedNoChecks) {
  for (const char* file : {"kernels.ptx", "races.ptx"}) {
    const Interpreter emu(TestData(file));
    for (const ptx::Function& function : emu.kernels().module().functions) {
      const Kernel* kernel = function.is_entry ? emu.kernels().Find(function.name) : nullptr;
      if (kernel == nullptr || kernel->code == nullptr) continue;
      EXPECT_TRUE(kernel->code->cleared.empty()) << function.name;
    }
  }
}

}  // namespace
}  // namespace cupel::emu
