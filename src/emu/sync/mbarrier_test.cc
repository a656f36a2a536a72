// Tests mbarriers as libcu++ uses them, and bulk copies.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numeric>

#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

class MbarrierTest : public testing::Test {
 protected:
  static std::string Kernels() {
    std::ifstream file(std::string(CUPEL_SOURCE_DIR) + "/src/emu/testdata/barriers.ptx");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  MbarrierTest() : run_(Kernels()) { run_.options.full_checks = true; }
  static std::vector<int> Count(size_t count) {
    std::vector<int> values(count);
    std::iota(values.begin(), values.end(), 1);
    return values;
  }
  uint64_t Empty(size_t count) { return run_.Buffer(std::vector<int>(count, -1)); }
  Interpreter run_;
};

TEST_F(MbarrierTest, PhasesCompleteInOrder) {
  const uint64_t in = run_.Buffer(Count(128)), out = Empty(128);
  const LaunchOutcome outcome = run_.Launch("reverse", {1, 1, 1}, {128, 1, 1}, in, out, 5);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  EXPECT_EQ(Summary(outcome), "");
  const std::vector<int> values = run_.Read<int>(out, 128);
  for (size_t i = 0; i < 128; ++i) EXPECT_EQ(values[i], 128 - static_cast<int>(i)) << i;
}

TEST_F(MbarrierTest, ProducersAndConsumersAlternate) {
  const int rounds = 7;
  const uint64_t in = run_.Buffer(Count(64 * rounds)), out = Empty(64 * rounds);
  const LaunchOutcome outcome = run_.Launch("producers", {1, 1, 1}, {128, 1, 1}, in, out, rounds);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  const std::vector<int> values = run_.Read<int>(out, 64 * rounds);
  for (int i = 0; i < 64 * rounds; ++i) {
    EXPECT_EQ(values[static_cast<size_t>(i)], 2 * (i / 64 * 64 + 63 - i % 64 + 1)) << i;
  }
}

TEST_F(MbarrierTest, BulkCopiesCompleteTheirBarrier) {
  const uint64_t in = run_.Buffer(Count(512)), out = Empty(512);
  const LaunchOutcome outcome = run_.Launch("bulk", {2, 1, 1}, {256, 1, 1}, in, out, 0);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  EXPECT_EQ(Summary(outcome), "");
  const std::vector<int> values = run_.Read<int>(out, 512);
  for (size_t i = 0; i < 512; ++i) EXPECT_EQ(values[i], static_cast<int>(i) + 2) << i;
}

TEST_F(MbarrierTest, UnawaitedBulkCopyLeavesPoison) {
  run_.options.full_checks = false;
  const uint64_t in = run_.Buffer(Count(256)), out = Empty(256);
  ASSERT_TRUE(run_.Launch("bulk", {1, 1, 1}, {256, 1, 1}, in, out, 1).completed);
  EXPECT_NE(run_.Read<int>(out, 256), Count(256));
  EXPECT_TRUE(std::isnan(run_.Read<float>(out, 256)[17]));
}

TEST_F(MbarrierTest, DetectsOutOfBoundsBulkCopy) {
  const uint64_t in = run_.Buffer(Count(252)), out = Empty(256);
  const LaunchOutcome outcome = run_.Launch("bulk", {1, 1, 1}, {256, 1, 1}, in, out, 0);
  ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
  EXPECT_EQ(outcome.findings[0].code, "out_of_bounds");
}

TEST_F(MbarrierTest, RunsBlockPipelines) {
  const int rounds = 5;
  const uint64_t in = run_.Buffer(Count(512 * rounds)), out = Empty(512 * rounds);
  const LaunchOutcome outcome = run_.Launch("pipeline", {1, 1, 1}, {128, 1, 1}, in, out, rounds);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  EXPECT_EQ(Summary(outcome), "");
  const std::vector<int> values = run_.Read<int>(out, 512 * rounds);
  for (int i = 0; i < 512 * rounds; ++i) {
    const int thread = i / 4 % 128;
    const int from = i / 512 * 512 + (127 - thread) * 4 + i % 4;
    ASSERT_EQ(values[static_cast<size_t>(i)], from + 1) << i;
  }
}

TEST_F(MbarrierTest, ReportsPhaseThatNeverCompletes) {
  const LaunchOutcome outcome = run_.Launch("stuck", {1, 1, 1}, {64, 1, 1}, Empty(64));
  EXPECT_FALSE(outcome.completed);
  ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
  // The wait loop of libcu++ reads the clock, so it might give up at some time.
  EXPECT_EQ(outcome.findings[0].code, "instruction_budget");
  EXPECT_NE(outcome.findings[0].message.find("mbarrier"), std::string::npos) << Summary(outcome);
}

std::string OneKernel(const std::string& body) {
  return R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {
.shared .align 8 .b64 bar[2];
.reg .pred %p<4>; .reg .b32 %a, %d, %r<8>; .reg .b64 %out, %s<4>;
ld.param.u64 %out, [out]; mov.u32 %a, bar; mov.u32 %d, 0;
)" + body +
         "\nst.global.u32 [%out], %d; ret; }\n";
}
uint32_t OutputOf(const std::string& body) {
  Interpreter run(OneKernel(body));
  const uint64_t out = run.Buffer(std::vector<uint32_t>(1));
  const LaunchOutcome outcome = run.Launch("k", {1, 1, 1}, {1, 1, 1}, out);
  EXPECT_TRUE(outcome.completed) << body << Summary(outcome);
  return run.Read<uint32_t>(out, 1)[0];
}

TEST(MbarrierInstructionTest, CountsAndPhases) {
  const std::string init = "mbarrier.init.shared.b64 [%a], 3;";
  const std::string test = "mbarrier.test_wait.shared.b64 %p1, [%a], %s1; selp.u32 %d, 1, 0, %p1;";
  const std::string arrive = "mbarrier.arrive.shared.b64 %s1, [%a];";
  EXPECT_EQ(OutputOf(init + arrive + test), 0u);
  EXPECT_EQ(OutputOf(init + "mbarrier.arrive.noComplete.shared.b64 %s1, [%a], 2;" + arrive + test),
            1u);
  EXPECT_EQ(OutputOf(init + arrive + "mbarrier.pending_count.b64 %d, %s1;"), 3u);
  // The phase before the first counts as complete.
  EXPECT_EQ(OutputOf(init + "mbarrier.try_wait.parity.shared.b64 %p1, [%a], 1; selp.u32 %d, 1, 0, "
                            "%p1;"),
            1u);
  // The phase completes only when all expected bytes have arrived, however many threads arrive.
  EXPECT_EQ(OutputOf(init +
                     "mbarrier.arrive.expect_tx.shared::cta.b64 %s1, [%a], 16;"
                     "mbarrier.arrive.shared.b64 _, [%a]; mbarrier.arrive.shared.b64 _, [%a];" +
                     test),
            0u);
  EXPECT_EQ(OutputOf(init +
                     "mbarrier.arrive.expect_tx.shared::cta.b64 %s1, [%a], 16;"
                     "mbarrier.arrive.shared.b64 _, [%a]; mbarrier.arrive.shared.b64 _, [%a];"
                     "mbarrier.complete_tx.shared::cta.relaxed.cluster.b64 [%a], 16;" +
                     test),
            1u);
  // A thread that has dropped is no longer expected.
  EXPECT_EQ(OutputOf("mbarrier.init.shared.b64 [%a], 2; mbarrier.arrive_drop.shared.b64 %s1, [%a];"
                     "mbarrier.arrive.shared.b64 _, [%a]; mbarrier.arrive.shared.b64 %s1, [%a];" +
                     test),
            1u);
}

TEST(MbarrierInstructionTest, DetectsMisuse) {
  for (const char* body :
       {"mbarrier.arrive.shared.b64 _, [%a];", "mbarrier.init.shared.b64 [%a], 0;",
        "mbarrier.init.shared.b64 [%a], 1; mbarrier.inval.shared.b64 [%a]; "
        "mbarrier.arrive.shared.b64 _, [%a];",
        "mbarrier.init.shared.b64 [%a], 2; mbarrier.arrive.shared.b64 _, [%a], 3;"}) {
    Interpreter run(OneKernel(body));
    const LaunchOutcome outcome =
        run.Launch("k", {1, 1, 1}, {1, 1, 1}, run.Buffer(std::vector<uint32_t>(1)));
    ASSERT_EQ(outcome.findings.size(), 1u) << body << Summary(outcome);
    EXPECT_EQ(outcome.findings[0].code, "invalid_barrier") << body;
  }
}

}  // namespace
}  // namespace cupel::emu
