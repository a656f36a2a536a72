// cp.async: data arrives, group by group, only when a thread waits for it. Includes a pipelined
// tensor-core GEMM.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/random.h"
#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

std::string TensorKernels() {
  std::ifstream file(std::string(CUPEL_SOURCE_DIR) + "/src/emu/testdata/tensor.ptx");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A kernel `k(from, to)`. In each thread %to is the address of its 16 bytes of shared memory, and
/// %from the address of its 16 bytes of `from`. The thread executes `body`, then copies its shared
/// bytes to its 16 bytes of `to`.
std::string AsyncKernel(const std::string& body) {
  return R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 pfrom, .param .u64 pto) {
.shared .align 16 .b8 buffer[1024];
.reg .pred %p<4>; .reg .b32 %t, %to, %r<8>; .reg .b64 %from, %out;
mov.u32 %t, %tid.x;
ld.param.u64 %from, [pfrom]; mad.wide.u32 %from, %t, 16, %from;
ld.param.u64 %out, [pto]; mad.wide.u32 %out, %t, 16, %out;
mov.u32 %to, buffer; mad.lo.u32 %to, %t, 16, %to;
)" + body +
         R"(
ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%to];
st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};
ret; }
)";
}

/// The 4 words that each of 32 threads stored; thread t's source is 100t + 1, 100t + 2 ….
std::vector<std::vector<uint32_t>> StoredBy(const std::string& body) {
  Interpreter run(AsyncKernel(body));
  std::vector<uint32_t> source;
  for (uint32_t t = 0; t < 33; ++t) {
    for (uint32_t i = 1; i <= 4; ++i) source.push_back(100 * t + i);
  }
  const uint64_t from = run.Buffer(source), to = run.Buffer(std::vector<uint32_t>(128));
  const LaunchOutcome outcome = run.Launch("k", {1, 1, 1}, {32, 1, 1}, from, to);
  EXPECT_TRUE(outcome.completed) << Summary(outcome);
  const std::vector<uint32_t> words = run.Read<uint32_t>(to, 128);
  std::vector<std::vector<uint32_t>> threads;
  for (size_t t = 0; t < 32; ++t) {
    threads.emplace_back(words.begin() + static_cast<std::ptrdiff_t>(4 * t),
                         words.begin() + static_cast<std::ptrdiff_t>(4 * t + 4));
  }
  return threads;
}
bool IsPoison(uint32_t word) { return std::isnan(std::bit_cast<float>(word)); }
using Words = std::vector<uint32_t>;

TEST(AsyncTest, DataArrivesWhenItsGroupIsWaitedFor) {
  const std::string copy = "cp.async.cg.shared.global [%to], [%from], 16;\n";
  const std::string commit = "cp.async.commit_group;\n";
  EXPECT_EQ(StoredBy(copy + commit + "cp.async.wait_group 0;")[3], (Words{301, 302, 303, 304}));
  EXPECT_EQ(StoredBy(copy + "cp.async.wait_all;")[3], (Words{301, 302, 303, 304}));
  EXPECT_TRUE(IsPoison(StoredBy(copy + commit)[3][0])) << "no wait";
  EXPECT_TRUE(IsPoison(StoredBy(copy + "cp.async.wait_group 0;")[3][0])) << "not committed";
  EXPECT_TRUE(IsPoison(StoredBy(copy + commit + "cp.async.wait_group 1;")[3][0]))
      << "the last group may stay in flight";
  EXPECT_EQ(StoredBy(copy + commit + commit + "cp.async.wait_group 1;")[5],
            (Words{501, 502, 503, 504}));
}

TEST(AsyncTest, GroupsBelongToThreads) {
  // Odd threads commit once more, so their copy is in the second-to-last group.
  const auto threads = StoredBy(R"(and.b32 %r0, %t, 1; setp.eq.u32 %p0, %r0, 1;
cp.async.ca.shared.global [%to], [%from], 16;
cp.async.commit_group;
@!%p0 bra JOIN;
cp.async.commit_group;
JOIN: cp.async.wait_group 1;)");
  EXPECT_EQ(threads[7], (Words{701, 702, 703, 704}));
  EXPECT_TRUE(IsPoison(threads[6][0]));
}

TEST(AsyncTest, ShorterSourcesAreFilledWithZeros) {
  EXPECT_EQ(StoredBy("mov.u32 %r0, 8; cp.async.cg.shared.global [%to], [%from], 16, %r0;"
                     "cp.async.wait_all;")[2],
            (Words{201, 202, 0, 0}));
  EXPECT_EQ(StoredBy("setp.lt.u32 %p1, %t, 4; cp.async.cg.shared.global [%to], [%from], 16, %p1;"
                     "cp.async.wait_all;")[2],
            (Words{0, 0, 0, 0}))
      << "ignore-src";
  // With zero bytes to copy the source is not read, so any address is valid.
  EXPECT_EQ(StoredBy("mov.b64 %from, 64; mov.u32 %r0, 0;"
                     "cp.async.cg.shared.global [%to], [%from], 16, %r0; cp.async.wait_all;")[2],
            (Words{0, 0, 0, 0}));
}

TEST(AsyncTest, SourceMayCrossA4GiBBoundary) {
  Interpreter run(AsyncKernel("cp.async.cg.shared.global [%to], [%from], 16; cp.async.wait_all;"));
  run.options.counters = true;
  constexpr uint64_t kEnd = uint64_t{1} << 32, kBytes = 32 << 20;
  uint64_t last = run.Empty<char>(1);
  const uint64_t end = (last / kEnd + 1) * kEnd;
  while (last < end - kBytes / 2) last = run.Empty<char>(1);  // each leaves a gap after it
  const uint64_t buffer = run.Buffer(std::vector<uint32_t>(kBytes / 4, 7));
  ASSERT_LT(buffer, end - 256);
  ASSERT_GT(buffer + kBytes, end + 256);
  const uint64_t to = run.Buffer(std::vector<uint32_t>(128));
  const LaunchOutcome outcome = run.Launch("k", {1, 1, 1}, {32, 1, 1}, end - 256, to);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  EXPECT_EQ(run.Read<uint32_t>(to, 128), std::vector<uint32_t>(128, 7));
  EXPECT_EQ(outcome.counters.global_load_sectors, 16u);
}

TEST(AsyncTest, ReportsErrorsWhenTheCopyIsIssued) {
  for (const auto& [body, code] :
       {std::pair("cp.async.cg.shared.global [%to+1024], [%from], 16;", "out_of_bounds"),
        std::pair("cp.async.cg.shared.global [%to], [%from+4096], 16;", "out_of_bounds"),
        std::pair("cp.async.cg.shared.global [%to], [%from+4], 16;", "misaligned"),
        std::pair("cp.async.ca.shared.global [%to+2], [%from], 4;", "misaligned")}) {
    Interpreter run(AsyncKernel(body));
    const uint64_t buffer = run.Buffer(std::vector<uint32_t>(256));
    const LaunchOutcome outcome = run.Launch("k", {1, 1, 1}, {32, 1, 1}, buffer, buffer);
    EXPECT_FALSE(outcome.completed) << body;
    ASSERT_EQ(outcome.findings.size(), 1u) << body << Summary(outcome);
    EXPECT_EQ(outcome.findings[0].code, code) << body;
  }
}

class PipelinedGemm : public testing::Test {
 protected:
  static constexpr int kM = 64, kN = 96, kK = 128;
  PipelinedGemm() : run_(TensorKernels()) {
    Random random(3);
    for (std::vector<uint16_t>* matrix : {&a_, &b_}) {
      for (uint16_t& value : *matrix) {
        const float number = static_cast<float>(random.Below(7)) - 3.0F;
        value = static_cast<uint16_t>(std::bit_cast<uint32_t>(number) >> 16);
      }
    }
  }
  static float Value(uint16_t brain) { return std::bit_cast<float>(uint32_t{brain} << 16); }
  std::vector<float> Multiply(int forget) {
    const uint64_t c = run_.Buffer(std::vector<float>(kM * kN));
    const LaunchOutcome outcome = run_.Launch("gemm_pipelined", {kN / 32, kM / 32, 1}, {128, 1, 1},
                                              run_.Buffer(a_), run_.Buffer(b_), c, kN, kK, forget);
    completed_ = outcome.completed;
    summary_ = Summary(outcome);
    return run_.Read<float>(c, kM * kN);
  }

  std::vector<uint16_t> a_ = std::vector<uint16_t>(kM * kK), b_ = std::vector<uint16_t>(kK * kN);
  Interpreter run_;
  bool completed_ = false;
  std::string summary_;
};

TEST_F(PipelinedGemm, MultipliesWithoutFindings) {
  run_.options.full_checks = true;
  const std::vector<float> c = Multiply(0);
  ASSERT_TRUE(completed_) << summary_;
  EXPECT_EQ(summary_, "");
  for (size_t i = 0; i < kM; ++i) {
    for (size_t j = 0; j < kN; ++j) {
      float sum = 0;
      for (size_t k = 0; k < kK; ++k) sum += Value(a_[i * kK + k]) * Value(b_[k * kN + j]);
      ASSERT_EQ(c[i * kN + j], sum) << i << " " << j;
    }
  }
}

TEST_F(PipelinedGemm, ForgottenWaitMakesEveryResultNan) {
  for (float value : Multiply(1)) ASSERT_TRUE(std::isnan(value)) << summary_;
}

}  // namespace
}  // namespace cupel::emu
