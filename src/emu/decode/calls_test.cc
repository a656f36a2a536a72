// Recursion, calls through pointers, printf and assertions.
// SPDX-License-Identifier: Apache-2.0

#include "emu/decode/calls.h"

#include "emu/core/call_stacks.h"
#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

std::string Kernels() {
  std::ifstream file(std::string(CUPEL_SOURCE_DIR) + "/src/emu/testdata/calls.ptx");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class CallsTest : public testing::Test {
 protected:
  CallsTest() : run_(Kernels()) {}
  Interpreter run_;
};

TEST_F(CallsTest, LanesRecurseToDifferentDepths) {
  const uint64_t out = run_.Buffer(std::vector<int>(64));
  const LaunchOutcome outcome = run_.Launch("fibonacci", {1, 1, 1}, {64, 1, 1}, out);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  const std::vector<int> expected = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55};
  const std::vector<int> values = run_.Read<int>(out, 64);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], expected[i % 11]) << i;
}

TEST_F(CallsTest, FunctionsMayCallEachOther) {
  const uint64_t out = run_.Buffer(std::vector<int>(64, -1));
  const LaunchOutcome outcome = run_.Launch("even", {1, 1, 1}, {64, 1, 1}, out);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  const std::vector<int> values = run_.Read<int>(out, 64);
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(values[static_cast<size_t>(i)], i % 3 == 0 ? -1 : i % 2 == 0) << i;
  }
}

void SumHalves(const int* values, int n, int* sums, int parity) {
  if (n == 1) {
    sums[parity] += values[0];
    return;
  }
  int mine[4] = {0, 0, 0, 0};
  SumHalves(values, n / 2, mine + 1, parity);
  SumHalves(values + n / 2, n - n / 2, mine + 1, parity ^ 1);
  for (int i = 0; i < 4; ++i) sums[i % 2] += i == 0 || i == 3 ? mine[i] : mine[i] * 2;
}

TEST_F(CallsTest, EveryInvocationHasItsOwnVariables) {
  const std::vector<int> input = {3, 1, 4, 1, 5, 9, 2, 6, 5};
  const uint64_t values = run_.Buffer(input), out = run_.Buffer(std::vector<int>(32));
  const LaunchOutcome outcome = run_.Launch("sum_halves", {1, 1, 1}, {32, 1, 1}, values, out);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  const std::vector<int> results = run_.Read<int>(out, 32);
  for (int i = 0; i < 32; ++i) {
    int sums[2] = {0, 0};
    SumHalves(input.data(), 1 + i % 9, sums, 0);
    EXPECT_EQ(results[static_cast<size_t>(i)], sums[0] * 1000 + sums[1]) << i;
  }
}

TEST_F(CallsTest, ReportsEndlessRecursion) {
  const uint64_t out = run_.Buffer(std::vector<int>(1));
  const LaunchOutcome outcome = run_.Launch("deep", {1, 1, 1}, {1, 1, 1}, out, 5);
  EXPECT_FALSE(outcome.completed);
  ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
  EXPECT_EQ(outcome.findings[0].code, "stack_overflow");
}

TEST_F(CallsTest, EachLaneCallsItsFunctionFromATable) {
  // The loader fills in addresses in initialisers; here the test does it.
  std::vector<uint64_t> table;
  for (const char* name : {"AddOne", "Double", "Square"}) {
    for (const ptx::Function& function : run_.kernels().module().functions) {
      if (function.is_declaration || function.name.find(name) == std::string::npos) continue;
      table.push_back(AddressOfFunction(run_.kernels().module(), function.name).value_or(0));
    }
  }
  ASSERT_EQ(table.size(), 3u);
  for (const ptx::Variable& variable : run_.kernels().module().variables) {
    if (variable.name.find("table") == std::string::npos) continue;
    std::memcpy(run_.memory().Host(*run_.memory().SymbolAddress(variable.name)), table.data(), 24);
  }
  std::vector<int> which(32);
  std::vector<float> x(32);
  for (int i = 0; i < 32; ++i) {
    which[static_cast<size_t>(i)] = i % 3;
    x[static_cast<size_t>(i)] = static_cast<float>(i);
  }
  const uint64_t out = run_.Buffer(x);
  const LaunchOutcome outcome =
      run_.Launch("through_table", {1, 1, 1}, {32, 1, 1}, run_.Buffer(which), out);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  const std::vector<float> results = run_.Read<float>(out, 32);
  for (size_t i = 0; i < 32; ++i) {
    const float value = x[i];
    const float expected = i % 3 == 0 ? value + 1 : (i % 3 == 1 ? value * 2 : value * value);
    EXPECT_EQ(results[i], expected + 0.5F) << i;
  }
}

TEST_F(CallsTest, RejectsCallThroughInvalidPointer) {
  // The table of functions stays empty here.
  const uint64_t out = run_.Buffer(std::vector<float>(32));
  const LaunchOutcome outcome =
      run_.Launch("through_table", {1, 1, 1}, {32, 1, 1}, run_.Buffer(std::vector<int>(32)), out);
  ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
  EXPECT_EQ(outcome.findings[0].code, "illegal_address");
}

TEST_F(CallsTest, PrintfFormatsAsTheDeviceDoes) {
  const uint64_t values = run_.Buffer(std::vector<int>{10});
  const uint64_t text = run_.Buffer(std::vector<char>{'a', 'b', 'c', 0});
  const LaunchOutcome outcome = run_.Launch("print", {2, 1, 1}, {32, 1, 1}, values, text);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  ASSERT_EQ(outcome.printed.size(), 8u);
  EXPECT_EQ(outcome.printed[0],
            "thread 1 of 32:  2.50|abc   |-5000000000|0xff|c|%|1.000000e-03|   7\n");
  EXPECT_EQ(outcome.printed[1].substr(0, 13), "thread 17 of ");
  EXPECT_EQ(outcome.printed[2], "10\n") << "printf returns the number of its arguments";
}

TEST(CallTest, FunctionReadsItsVariadicArguments) {
  Interpreter run(R"(
.version 7.0
.target sm_80
.address_size 64
.func (.param .b32 r) last(.param .b32 n, .param .align 8 .b8 more[]) {
  .reg .b32 %r<1>;
  ld.param.b32 %r0, [more+8];
  st.param.b32 [r], %r0;
  ret;
}
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<1>; .reg .b64 %rd<1>;
  .param .b32 n; .param .align 8 .b8 more[16]; .param .b32 r;
  st.param.b32 [n], 2;
  st.param.b64 [more], 0d4000000000000000;
  st.param.b32 [more+8], 7;
  call (r), last, (n, more);
  ld.param.b32 %r0, [r];
  ld.param.u64 %rd0, [out];
  st.global.b32 [%rd0], %r0;
  ret;
}
)");
  const uint64_t out = run.Buffer(std::vector<int>(1));
  const LaunchOutcome outcome = run.Launch("k", {1, 1, 1}, {1, 1, 1}, out);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  EXPECT_EQ(run.Read<int>(out, 1)[0], 7);
}

TEST(CallTest, LanesOfAGuardedCallRunAnAliasedFunction) {
  Interpreter run(R"(
.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 r) twice(.param .b32 a) {
  .reg .b32 %r<2>;
  ld.param.b32 %r0, [a];
  add.s32 %r1, %r0, %r0;
  st.param.b32 [r], %r1;
  ret;
}
.func (.param .b32 r) other(.param .b32 a);
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<2>; .reg .b64 %rd<2>; .reg .pred %p<1>;
  .param .b32 a; .param .b32 r;
  mov.u32 %r0, %tid.x;
  setp.lt.u32 %p0, %r0, 20;
  st.param.b32 [a], %r0;
  st.param.b32 [r], -1;
  @%p0 call (r), other, (a);
  ld.param.b32 %r1, [r];
  ld.param.u64 %rd0, [out];
  mad.wide.u32 %rd1, %r0, 4, %rd0;
  st.global.b32 [%rd1], %r1;
  ret;
}
.alias other, twice;
)");
  const uint64_t out = run.Buffer(std::vector<int>(32));
  const LaunchOutcome outcome = run.Launch("k", {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  const std::vector<int> results = run.Read<int>(out, 32);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(results[static_cast<size_t>(i)], i < 20 ? 2 * i : -1) << i;
}

TEST_F(CallsTest, QuotesFailedAssertion) {
  std::vector<int> values(32, 7);
  values[5] = 41;
  const LaunchOutcome outcome = run_.Launch("asserts", {1, 1, 1}, {32, 1, 1}, run_.Buffer(values));
  EXPECT_FALSE(outcome.completed);
  ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
  const records::Finding& finding = outcome.findings[0];
  EXPECT_EQ(finding.code, "assertion_failed");
  EXPECT_EQ(finding.thread.x, 5u);
  EXPECT_EQ(finding.file, "calls.cu");
  EXPECT_NE(finding.message.find("`values[threadIdx.x] < 40`"), std::string::npos)
      << finding.message;
}

}  // namespace
}  // namespace cupel::emu
