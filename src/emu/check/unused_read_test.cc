// Tests which races between a read and a write are errors: those whose value is used.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "emu/check/value_flow.h"
#include "emu/decode/kernel_module.h"
#include "emu/exec/emulator.h"
#include "ptx/parser.h"

namespace cupel::emu {
namespace {

// 64 threads. %r2: x[thread]; %r3: the thread; %r9 and %rd9: the addresses of the thread's words in
// `tile` and y. All words of `tile` and y are written before the barrier.
constexpr const char* kBegin = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
.reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<10>; .reg .f32 %f<9>;
.shared .align 4 .b8 tile[256];
.local .align 4 .b8 kept[16];
ld.param.u64 %rd1, [x];
ld.param.u64 %rd2, [y];
mov.u32 %r3, %tid.x;
mul.wide.u32 %rd3, %r3, 4;
add.s64 %rd8, %rd1, %rd3;
add.s64 %rd9, %rd2, %rd3;
ld.global.u32 %r2, [%rd8];
mov.u32 %r1, tile;
shl.b32 %r4, %r3, 2;
add.u32 %r9, %r1, %r4;
xor.b32 %r5, %r4, 128;
add.u32 %r8, %r1, %r5;
mul.wide.u32 %rd4, %r5, 1;
add.s64 %rd7, %rd2, %rd4;
st.shared.u32 [%r9], %r2;
st.global.u32 [%rd9], %r2;
setp.lt.u32 %p1, %r3, 1000;
setp.ge.u32 %p2, %r3, 1000;
setp.gt.u32 %p3, %r2, 1000;
bar.sync 0;
)";
constexpr const char* kEnd = R"(
bar.sync 0;
ld.shared.u32 %r39, [%r9];
st.global.u32 [%rd9], %r39;
ret;
}
)";
// The race: another warp's word of `tile` is read, which that warp writes.
constexpr const char* kRead = "ld.shared.u32 %r10, [%r8];\n";
constexpr const char* kWrite = "add.u32 %r11, %r2, 1;\nst.shared.u32 [%r9], %r11;\n";

engine::Run RunText(const std::string& text, engine::RunOptions options = {}) {
  build::Image image;
  image.ptx = text;
  plan::Plan plan;
  plan.buffers = {plan::Buffer{plan::BufferKind::kArgument, 256, 0, ""},
                  plan::Buffer{plan::BufferKind::kTemporary, 256, -1, ""}};
  plan::Launch launch;
  launch.kernel = "k";
  launch.grid = {1, 1, 1};
  launch.block = {64, 1, 1};
  launch.parameters = std::string(16, '\0');
  launch.relocations = {{0, {0, 0}}, {8, {1, 0}}};
  plan.nodes = {plan::Node{launch, {}}};
  plan.outputs = {plan::View{{1, 0}, DType::kI32, {64}, {1}}};
  std::vector<int32_t> x(64);
  std::iota(x.begin(), x.end(), 1);
  const std::vector<std::span<const std::byte>> arguments = {std::as_bytes(std::span(x))};
  const auto emulator = MakeEmulator(*device::Find("h100"), {2});
  auto program = emulator->Load(build::OneImage(image));
  options.full_checks = true;
  auto run = (*program)->Execute(plan, arguments, options);
  EXPECT_TRUE(run.has_value()) << run.error().ToString();
  return run ? *run : engine::Run{};
}
engine::Run RunRacing(const std::string& body, engine::RunOptions options = {}) {
  return RunText(kBegin + body + kEnd, std::move(options));
}

std::string FindingsOf(const engine::Run& run) {
  std::string text = run.unsupported;
  for (const records::Finding& finding : run.findings) {
    text += finding.code + ": " + finding.message + "\n";
  }
  return text;
}

void ExpectHarmless(const engine::Run& run, const std::string& code = "shared_race") {
  EXPECT_TRUE(run.completed) << FindingsOf(run);
  ASSERT_EQ(run.findings.size(), 1u) << FindingsOf(run);
  EXPECT_EQ(run.findings[0].code, code);
  EXPECT_EQ(run.findings[0].severity, records::Severity::kWarning);
  EXPECT_NE(run.findings[0].message.find("The value that was read is not used."), std::string::npos)
      << FindingsOf(run);
}
void ExpectError(const engine::Run& run, const std::string& code = "shared_race") {
  EXPECT_FALSE(run.completed) << FindingsOf(run);
  ASSERT_FALSE(run.findings.empty()) << run.unsupported;
  EXPECT_EQ(run.findings.back().code, code) << FindingsOf(run);
  EXPECT_EQ(run.findings.back().severity, records::Severity::kError);
  EXPECT_EQ(run.findings.back().message.find("not used"), std::string::npos);
}

struct Case {
  const char* name;
  const char* text;
};

constexpr Case kUnusedCases[] = {
    {"Nothing", ""},
    {"Computes", "add.u32 %r12, %r10, 1;\nmul.lo.u32 %r13, %r12, %r12;\n"},
    {"StoreThatDoesNotRun", "@%p2 st.global.u32 [%rd9], %r10;\n"},
    {"PathNotTaken", "@%p1 bra OVER;\nst.global.u32 [%rd9], %r10;\nOVER:\n"},
    {"Shuffle", "shfl.sync.bfly.b32 %r12|%p4, %r10, 1, 31, -1;\nadd.u32 %r13, %r12, %r2;\n"},
    {"Vote", "setp.eq.u32 %p4, %r10, 3;\nvote.sync.ballot.b32 %r12, %p4, -1;\n"},
    {"Overwritten", "mov.u32 %r10, %r2;\nst.global.u32 [%rd9], %r10;\n"},
    {"AnotherDecisionOfMemory", "@%p3 bra OVER;\nadd.u32 %r12, %r2, 1;\nOVER:\n"},
    {"OverwrittenOnBothPaths",
     "@%p3 bra OVER;\nmov.u32 %r10, 1;\nbra JOIN;\nOVER:\nmov.u32 %r10, 2;\nJOIN:\n"
     "st.global.u32 [%rd9], %r10;\n"},
};
constexpr Case kUsedCases[] = {
    {"SharedStore", "st.shared.u32 [%r9], %r10;\n"},
    {"GlobalStore", "st.global.u32 [%rd9], %r10;\n"},
    {"LocalStore", "st.local.u32 [kept], %r10;\n"},
    {"Computed", "add.u32 %r12, %r10, 1;\nxor.b32 %r13, %r12, 5;\nst.global.u32 [%rd9], %r13;\n"},
    {"AlwaysZero", "sub.u32 %r12, %r10, %r10;\nst.global.u32 [%rd9], %r12;\n"},
    {"Copied", "mov.u32 %r12, %r10;\nst.global.u32 [%rd9], %r12;\n"},
    {"Selected",
     "setp.eq.u32 %p4, %r10, 77777;\nselp.u32 %r12, 1, 2, %p4;\n"
     "st.global.u32 [%rd9], %r12;\n"},
    {"Branch", "setp.eq.u32 %p4, %r10, 77777;\n@%p4 bra OVER;\nadd.u32 %r12, %r2, 1;\nOVER:\n"},
    {"Guard", "setp.eq.u32 %p4, %r10, 77777;\n@%p4 st.global.u32 [%rd9], %r2;\n"},
    {"Exit", "setp.eq.u32 %p4, %r10, 77777;\n@%p4 exit;\n"},
    {"Address", "and.b32 %r12, %r10, 0;\nadd.u32 %r12, %r12, %r9;\nld.shared.u32 %r13, [%r12];\n"},
    {"Shuffle", "shfl.sync.bfly.b32 %r12|%p4, %r10, 1, 31, -1;\nst.global.u32 [%rd9], %r12;\n"},
    {"ShuffleToOtherLanes",
     "setp.eq.u32 %p4, %r3, 5;\nselp.u32 %r12, %r10, 0, %p4;\n"
     "shfl.sync.idx.b32 %r13|%p5, %r12, 7, 31, -1;\n@%p1 st.global.u32 [%rd9], %r13;\n"},
    {"Vote",
     "setp.eq.u32 %p4, %r10, 77777;\nvote.sync.any.pred %p5, %p4, -1;\n@%p5 bra OVER;\n"
     "add.u32 %r12, %r2, 1;\nOVER:\n"},
    {"Reduction", "redux.sync.add.u32 %r12, %r10, -1;\nst.global.u32 [%rd9], %r12;\n"},
    {"Atomic", "and.b32 %r12, %r10, 0;\natom.global.add.u32 %r13, [%rd9], %r12;\n"},
    {"Barrier", "setp.eq.u32 %p4, %r10, 77777;\nbarrier.red.or.pred %p5, 0, %p4;\n"},
    {"Carry", "add.cc.u32 %r12, %r10, %r2;\naddc.u32 %r13, 0, 0;\nst.global.u32 [%rd9], %r13;\n"},
    // Another input would take the other path.
    {"PathThatMemoryDecides", "@!%p3 bra OVER;\nst.global.u32 [%rd9], %r10;\nOVER:\n"},
    {"GuardThatMemoryDecides", "@%p3 st.global.u32 [%rd9], %r10;\n"},
    {"OverwrittenIfMemoryDecides",
     "setp.le.u32 %p4, %r2, 1000;\n@%p4 mov.u32 %r10, 1;\nst.global.u32 [%rd9], %r10;\n"},
    {"MemoryDecidesAboutADecision",
     "mov.u32 %r12, 0;\n@!%p3 bra OVER;\nmov.u32 %r12, 1;\nOVER:\nsetp.eq.u32 %p4, %r12, 1;\n"
     "@%p4 st.global.u32 [%rd9], %r10;\n"},
    {"ExitThatMemoryDecides",
     "setp.le.u32 %p4, %r2, 1000;\nst.shared.u32 [%r9], 7;\n@%p4 exit;\n"
     "st.global.u32 [%rd9], %r10;\n"},
};

std::string NameOf(const testing::TestParamInfo<Case>& info) { return info.param.name; }

class UnusedReadTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, UnusedReadTest, testing::ValuesIn(kUnusedCases), NameOf);
class UsedReadTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, UsedReadTest, testing::ValuesIn(kUsedCases), NameOf);

TEST_P(UnusedReadTest, IsAWarningInBothOrders) {
  ExpectHarmless(RunRacing(std::string(kRead) + kWrite + GetParam().text));
  ExpectHarmless(RunRacing(std::string(kWrite) + kRead + GetParam().text));
  for (uint64_t schedule = 1; schedule < 5; ++schedule) {
    engine::RunOptions options;
    options.schedule = options.seed = schedule;
    ExpectHarmless(RunRacing(std::string(kRead) + kWrite + GetParam().text, options));
  }
}

TEST_P(UsedReadTest, IsAnErrorInBothOrders) {
  ExpectError(RunRacing(std::string(kRead) + kWrite + GetParam().text));
  ExpectError(RunRacing(std::string(kWrite) + kRead + GetParam().text));
  for (uint64_t schedule = 1; schedule < 5; ++schedule) {
    engine::RunOptions options;
    options.schedule = options.seed = schedule;
    ExpectError(RunRacing(std::string(kRead) + kWrite + GetParam().text, options));
  }
}

TEST(RaceTrial, GivesTheResultsOfTheRun) {
  engine::RunOptions options;
  options.counters = true;
  const engine::Run run = RunRacing(std::string(kRead) + kWrite, options);
  ExpectHarmless(run);
  ASSERT_EQ(run.outputs.size(), 1u);
  std::vector<int32_t> values(64);
  ASSERT_EQ(run.outputs[0].bytes.size(), 256u);
  std::memcpy(values.data(), run.outputs[0].bytes.data(), 256);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], i + 2);
  EXPECT_EQ(run.counters.launches.size(), 1u);
}

// Triton: all warps load the first 32 elements, one stores them.
TEST(RaceTrial, AllowsReplicasInPlace) {
  const std::string load = R"(
and.b32 %r20, %r4, 127;
cvt.u64.u32 %rd5, %r20;
add.s64 %rd6, %rd2, %rd5;
ld.global.u32 %r21, [%rd6];
shl.b32 %r22, %r21, 1;
setp.lt.u32 %p6, %r3, 32;
)";
  ExpectHarmless(RunRacing(load + "@%p6 st.global.u32 [%rd6], %r22;\n"), "global_race");
  // The replica keeps the value.
  ExpectError(
      RunRacing(load + "@%p6 st.global.u32 [%rd6], %r22;\n@!%p6 st.shared.u32 [%r9], %r22;\n"),
      "global_race");
}

// One of two reads of the place is ordered before the write, and used.
TEST(RaceTrial, DistinguishesReadsOfAPlace) {
  const std::string ordered =
      "ld.shared.u32 %r30, [%r8];\nst.global.u32 [%rd9], %r30;\nbar.sync 0;\n";
  ExpectHarmless(RunRacing(ordered + kRead + kWrite));
  ExpectError(RunRacing(ordered + kRead + kWrite + "st.global.u32 [%rd9], %r10;\n"));
  // Both race, the first one is used.
  ExpectError(RunRacing("ld.shared.u32 %r30, [%r8];\nst.global.u32 [%rd9], %r30;\n" +
                        std::string(kRead) + kWrite));
}

TEST(RaceTrial, LoopsKeepTheLastFetchApart) {
  const auto pipeline = [](int used) {
    return R"(
mov.u32 %r31, 0;
mov.u32 %r32, 0;
ld.shared.u32 %r10, [%r8];
bar.sync 0;
LOOP:
add.u32 %r32, %r32, %r10;
ld.shared.u32 %r10, [%r8];
add.u32 %r31, %r31, 1;
setp.lt.u32 %p4, %r31, )" +
           std::to_string(used) + ";\n@%p4 bar.sync 0;\n@%p4 bra LOOP;\n" + kWrite;
  };
  ExpectHarmless(RunRacing(pipeline(3)));
  ExpectError(RunRacing(pipeline(3) + "add.u32 %r32, %r32, %r10;\nst.global.u32 [%rd9], %r32;\n"));
}

TEST(RaceTrial, RacesOfWritesAreErrors) {
  ExpectError(RunRacing(std::string(kRead) + kWrite + "st.shared.u32 [%r8], 5;\n"));
  ExpectError(RunRacing("st.shared.u32 [%r8], 5;\n" + std::string(kWrite)));
}

TEST(ValueFlow, KnowsWhatMemoryDecides) {
  const auto module =
      ptx::Parse(std::string(kBegin) + "@%p3 bra OVER;\nmov.u32 %r12, 1;\nOVER:\n" + kEnd);
  ASSERT_TRUE(module.has_value());
  const auto kernels = KernelModule::Decode(*module);
  const Kernel* kernel = (*kernels)->Find("k");
  ASSERT_TRUE(kernel != nullptr && kernel->text != nullptr);
  const ValueFlow flow(*kernel->text);
  int jumps = 0;
  for (size_t i = 0; i < flow.instructions(); ++i) {
    if (flow.of(i).guard < 0) continue;
    ++jumps;
    EXPECT_TRUE(flow.of(i).guard_varies);
  }
  EXPECT_EQ(jumps, 1);
}

}  // namespace
}  // namespace cupel::emu
