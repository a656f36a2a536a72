// Tests malloc and free in device code.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

/// Each thread allocates `bytes` bytes at %p, executes `body`, and stores %w.
std::string HeapProgram(const std::string& bytes, const std::string& body) {
  return ".version 8.0\n.target sm_80\n.address_size 64\n"
         ".extern .func (.param .b64 func_retval0) malloc (.param .b64 malloc_param_0);\n"
         ".extern .func free (.param .b64 free_param_0);\n"
         ".visible .entry k(.param .u64 out)\n{\n"
         ".reg .pred %q; .reg .b32 %t, %w; .reg .b64 %out, %at, %p;\n"
         "ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %at, %t, 4;\n"
         "add.s64 %out, %out, %at;\nmov.u32 %w, 7;\n"
         "{ .param .b64 param0; .param .b64 retval0;\nmov.u64 %at, " +
         bytes +
         ";\nst.param.b64 [param0], %at;\ncall.uni (retval0), malloc, (param0);\n"
         "ld.param.b64 %p, [retval0];\n}\n" +
         body + "st.global.u32 [%out], %w;\nret;\n}\n";
}
const std::string kFree =
    "{ .param .b64 param0;\nst.param.b64 [param0], %p;\ncall.uni free, (param0);\n}\n";

LaunchOutcome RunHeap(const std::string& program, std::vector<uint32_t>* result = nullptr) {
  Interpreter emu(program);
  emu.CheckEverything();
  const uint64_t out = emu.Empty<uint32_t>(64);
  const LaunchOutcome outcome = emu.Launch("k", {1, 1, 1}, {64, 1, 1}, out);
  if (result != nullptr) *result = emu.Read<uint32_t>(out, 64);
  return outcome;
}

std::string CodeOf(const LaunchOutcome& outcome) {
  return outcome.findings.empty() ? "" : outcome.findings[0].code;
}

TEST(HeapTest, ThreadsGetMemoryOfTheirOwn) {
  std::vector<uint32_t> result;
  const LaunchOutcome outcome =
      RunHeap(HeapProgram("20", "st.u32 [%p+16], %t;\nbar.sync 0;\nld.u32 %w, [%p+16];\n" + kFree),
              &result);
  EXPECT_EQ(Summary(outcome), "");
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(result[i], i);
}

TEST(HeapTest, ReturnsNullWhenTheHeapIsExhausted) {
  std::vector<uint32_t> result;
  const LaunchOutcome outcome = RunHeap(
      HeapProgram("1048576", "setp.ne.u64 %q, %p, 0;\nselp.u32 %w, 1, 0, %q;\n" + kFree), &result);
  EXPECT_EQ(Summary(outcome), "");
  uint32_t fit = 0;
  for (const uint32_t got : result) fit += got;
  EXPECT_EQ(fit, 16u);  // 8 of each warp, which frees them before the other one runs
}

TEST(HeapTest, DoesNotSupportMoreMemoryThanItCanWatch) {
  const std::string again =
      "setp.ne.u64 %q, %p, 0;\n@!%q bra END;\n" + kFree + "add.u32 %w, %w, 1;\nbra AGAIN;\nEND:\n";
  std::string program = HeapProgram("4194304", again);
  program.insert(program.find("{ .param .b64 param0; .param .b64 retval0"), "AGAIN: ");
  const LaunchOutcome outcome = RunHeap(program);
  EXPECT_NE(outcome.unsupported.find("more than 512 MB with malloc"), outcome.unsupported.npos)
      << Summary(outcome);
}

TEST(HeapTest, FindsWrongAccesses) {
  EXPECT_EQ(CodeOf(RunHeap(HeapProgram("20", "st.u32 [%p+20], %t;\n"))), "out_of_bounds");
  EXPECT_EQ(CodeOf(RunHeap(HeapProgram("20", "st.u32 [%p], %t;\n" + kFree + "ld.u32 %w, [%p];\n"))),
            "use_after_free");
  EXPECT_EQ(CodeOf(RunHeap(HeapProgram("20", kFree + kFree))), "invalid_free");
  EXPECT_EQ(CodeOf(RunHeap(HeapProgram("20", "add.s64 %p, %p, 8;\n" + kFree))), "invalid_free");
  EXPECT_EQ(CodeOf(RunHeap(HeapProgram("20", "ld.u32 %w, [%p];\n"))), "uninitialized_global");
}

}  // namespace
}  // namespace cupel::emu
