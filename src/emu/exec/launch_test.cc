// Compares kernels compiled by nvcc with plain C++: results, findings, determinism.
// SPDX-License-Identifier: Apache-2.0

#include "emu/exec/launch.h"

#include <cmath>
#include <functional>
#include <numeric>

#include "base/random.h"
#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"
#include "emu/ops/handlers.h"

namespace cupel::emu {
namespace {

std::vector<float> Floats(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.Unit() * 2 - 1);
  return values;
}
std::vector<int> Ints(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<int> values(count);
  for (int& value : values) value = static_cast<int>(random.Below(1u << 16));
  return values;
}
bool Has(const LaunchOutcome& outcome, const std::string& code) {
  for (const records::Finding& finding : outcome.findings) {
    if (finding.code == code) return true;
  }
  return false;
}

class LaunchTest : public testing::Test {
 protected:
  Interpreter emu{TestKernels()};
};

TEST_F(LaunchTest, WarpReductionsMatch) {
  constexpr int kRows = 19, kColumns = 131;
  const auto x = Floats(kRows * kColumns, 1), w = Floats(kColumns, 2);
  const uint64_t dx = emu.Buffer(x), dw = emu.Buffer(w), dy = emu.Buffer(std::vector<float>(kRows));
  const auto outcome = emu.Launch("warp_linear", {5}, {128}, dx, dw, dy, 0.5f, kRows, kColumns);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  EXPECT_TRUE(outcome.findings.empty()) << Summary(outcome);
  const auto y = emu.Read<float>(dy, kRows);
  for (int r = 0; r < kRows; ++r) {
    double want = 0.5;
    for (int k = 0; k < kColumns; ++k)
      want += double{x[static_cast<size_t>(r * kColumns + k)]} * w[static_cast<size_t>(k)];
    EXPECT_NEAR(y[static_cast<size_t>(r)], want, 1e-5);
  }
}

TEST_F(LaunchTest, SharedTilesAndBarriersMatch) {
  constexpr size_t kN = 64;
  const auto a = Floats(kN * kN, 3), b = Floats(kN * kN, 4);
  const uint64_t da = emu.Buffer(a), db = emu.Buffer(b),
                 dc = emu.Buffer(std::vector<float>(kN * kN));
  for (bool full : {false, true}) {
    emu.options.full_checks = full;
    const auto outcome = emu.Launch("gemm_tiled", {4, 4}, {16, 16}, da, db, dc, int{kN});
    ASSERT_TRUE(outcome.completed) << Summary(outcome);
    EXPECT_TRUE(outcome.findings.empty()) << Summary(outcome);
    EXPECT_EQ(outcome.counters.barriers, 4u * 4 * 8 * 8);
    EXPECT_EQ(outcome.counters.global_store_bytes, kN * kN * 4);
    EXPECT_EQ(outcome.counters.global_load_bytes, 2 * kN * kN * 4 * 4);
    EXPECT_EQ(outcome.counters.floating_point_operations, 2 * kN * kN * kN);
  }
  const auto c = emu.Read<float>(dc, kN * kN);
  for (size_t i = 0; i < kN * kN; i += 37) {
    double want = 0;
    for (size_t k = 0; k < kN; ++k) want += double{a[i / kN * kN + k]} * b[k * kN + i % kN];
    EXPECT_NEAR(c[i], want, 1e-4);
  }
}

TEST_F(LaunchTest, MissingBarrierIsARaceUnderFullChecks) {
  constexpr size_t kN = 64;
  const uint64_t da = emu.Buffer(Floats(kN * kN, 3)), db = emu.Buffer(Floats(kN * kN, 4)),
                 dc = emu.Buffer(std::vector<float>(kN * kN));
  EXPECT_TRUE(emu.Launch("gemm_racy", {4, 4}, {16, 16}, da, db, dc, int{kN}).completed);
  emu.options.full_checks = true;
  const auto outcome = emu.Launch("gemm_racy", {4, 4}, {16, 16}, da, db, dc, int{kN});
  EXPECT_FALSE(outcome.completed);
  EXPECT_TRUE(Has(outcome, "shared_race")) << Summary(outcome);
}

TEST_F(LaunchTest, VectorAccessesMatch) {
  constexpr size_t kN = 1000;
  const auto a = Floats(kN * 4, 5), b = Floats(kN * 4, 6);
  const uint64_t da = emu.Buffer(a), db = emu.Buffer(b),
                 dc = emu.Buffer(std::vector<float>(kN * 4));
  const auto outcome = emu.Launch("silu_mul", {4}, {256}, da, db, dc, int{kN});
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  const auto c = emu.Read<float>(dc, kN * 4);
  for (size_t i = 0; i < kN * 4; ++i) {
    EXPECT_NEAR(c[i], a[i] / (1 + std::exp(-a[i])) * b[i], 2e-6);
  }
}

TEST_F(LaunchTest, SoftmaxWithDynamicSharedMemoryMatches) {
  constexpr size_t kRows = 3, kN = 700;
  const auto x = Floats(kRows * kN, 7);
  const uint64_t dx = emu.Buffer(x), dy = emu.Buffer(std::vector<float>(kRows * kN));
  emu.dynamic_shared = 4 * 8;
  emu.options.full_checks = true;
  const auto outcome = emu.Launch("softmax_rows", {kRows}, {256}, dx, dy, int{kN});
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  const auto y = emu.Read<float>(dy, kRows * kN);
  for (size_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (size_t i = 0; i < kN; ++i) sum += std::exp(double{x[r * kN + i]});
    for (size_t i = 0; i < kN; i += 13) {
      EXPECT_NEAR(y[r * kN + i], std::exp(double{x[r * kN + i]}) / sum, 1e-7);
    }
  }
  // With too little shared memory, the last warp writes past its end.
  emu.dynamic_shared = 4 * 7;
  emu.options.full_checks = false;
  const auto small = emu.Launch("softmax_rows", {kRows}, {256}, dx, dy, int{kN});
  ASSERT_FALSE(small.completed);
  EXPECT_EQ(small.findings[0].code, "out_of_bounds");
  EXPECT_EQ(small.findings[0].where, "shared memory + 28 bytes, 4 past its end (28 bytes)");
}

TEST_F(LaunchTest, DivergentControlFlowMatches) {
  constexpr size_t kN = 1000;
  const auto x = Ints(kN, 8);
  const uint64_t dx = emu.Buffer(x), dy = emu.Buffer(std::vector<int>(kN));
  const auto outcome = emu.Launch("divergent", {8}, {128}, dx, dy, int{kN});
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  const auto y = emu.Read<int>(dy, kN);
  auto reference = [&](int i) {
    const int v = x[static_cast<size_t>(i)];
    int sum = 0;
    for (int a = 0; a < (i & 7) + 1; ++a) {
      if (((v >> a) & 3) == 1) continue;
      for (int b = a; b < 50; b += (i % 3) + 1) {
        if (((v ^ b) & 31) == 7) break;
        sum += b * (a + 1);
        if (sum > 4000) return -sum;
      }
      switch ((v + a) % 5) {
        case 0:
          sum += 3;
          break;
        case 1:
          sum ^= 0x55;
          break;
        case 2:
          sum *= 3;
          break;
        case 3:
          sum -= i;
          break;
        default:
          sum = ~sum;
      }
    }
    return sum;
  };
  for (size_t i = 0; i < kN; ++i) ASSERT_EQ(y[i], reference(static_cast<int>(i))) << i;
}

TEST_F(LaunchTest, AtomicsAreExactAndOrdered) {
  constexpr size_t kN = 5000;
  const auto x = Ints(kN, 9);
  const uint64_t dx = emu.Buffer(x), bins = emu.Buffer(std::vector<unsigned>(16)),
                 total = emu.Buffer(std::vector<float>(1));
  const auto outcome = emu.Launch("histogram", {20}, {256}, dx, bins, total, int{kN});
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  std::vector<unsigned> want(16);
  float sum = 0;
  for (int v : x) {
    ++want[static_cast<size_t>(v & 15)];
    sum += static_cast<float>(v & 15);
  }
  EXPECT_EQ(emu.Read<unsigned>(bins, 16), want);
  EXPECT_EQ(emu.Read<float>(total, 1)[0], sum);
  EXPECT_TRUE(emu.kernels().Find("histogram")->has_global_atomics);
}

TEST_F(LaunchTest, LocalArraysMatch) {
  constexpr size_t kN = 300;
  const auto x = Ints(kN, 10);
  const uint64_t dx = emu.Buffer(x), dy = emu.Buffer(std::vector<int>(kN));
  const auto outcome = emu.Launch("local_array", {3}, {128}, dx, dy, int{kN});
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  const auto y = emu.Read<int>(dy, kN);
  for (unsigned i = 0; i < kN; ++i) {
    const auto v = static_cast<unsigned>(x[i]);
    unsigned a[16];
    for (unsigned k = 0; k < 16; ++k) a[k] = v * (k + 1);
    for (unsigned k = 0; k < 32; ++k) a[(v + k * 5) & 15] += a[(k * 7 + i) & 15];
    unsigned sum = 0;
    for (unsigned k = 0; k < 16; ++k) sum = sum * 31 + a[k];
    ASSERT_EQ(static_cast<unsigned>(y[i]), sum) << i;
  }
}

TEST_F(LaunchTest, ShufflesFromAbsentLanesArePoison) {
  const auto x = Floats(32, 11);
  const uint64_t dx = emu.Buffer(x), dy = emu.Buffer(std::vector<float>(1));
  const auto bad = emu.Launch("bad_shuffle", {1}, {32}, dx, dy);
  EXPECT_TRUE(bad.completed) << Summary(bad);
  EXPECT_TRUE(Has(bad, "shuffle_inactive_lane")) << Summary(bad);
  EXPECT_TRUE(std::isnan(emu.Read<float>(dy, 1)[0]));
  const auto good = emu.Launch("good_shuffle", {1}, {32}, dx, dy);
  EXPECT_TRUE(good.findings.empty()) << Summary(good);
  const float want = ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
  EXPECT_EQ(emu.Read<float>(dy, 1)[0], want);
}

TEST_F(LaunchTest, ShuffleReadsLanesOutsideItsMask) {
  const auto x = Floats(32, 11);
  const uint64_t dx = emu.Buffer(x), dy = emu.Buffer(std::vector<float>(1));
  const auto outcome = emu.Launch("excluded_shuffle", {1}, {32}, dx, dy);
  EXPECT_TRUE(Has(outcome, "shuffle_inactive_lane")) << Summary(outcome);
  EXPECT_EQ(outcome.findings[0].severity, records::Severity::kWarning);
  float sum = 0;
  for (int i = 0; i < 10; ++i) sum += x[static_cast<size_t>(i)];
  EXPECT_NEAR(emu.Read<float>(dy, 1)[0], sum, 1e-5f);
}

TEST_F(LaunchTest, LanesThatSpinForEachOtherTakeTurns) {
  const uint64_t lock = emu.Buffer(std::vector<int>(1)), counter = emu.Buffer(std::vector<int>(1));
  const auto outcome = emu.Launch("spin_lock", {3}, {96}, lock, counter);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  EXPECT_EQ(emu.Read<int>(counter, 1)[0], 3 * 96);
}

TEST_F(LaunchTest, BlocksThatWaitForLaterBlocksRunTogether) {
  const uint64_t flags = emu.Buffer(std::vector<int>(7)), dy = emu.Buffer(std::vector<int>(7 * 64));
  for (bool cooperative : {false, true}) {
    emu.cooperative = cooperative;
    std::memset(emu.memory().Host(flags), 0, 28);
    const auto outcome = emu.Launch("wait_for_next", {7}, {64}, flags, dy);
    ASSERT_TRUE(outcome.completed) << Summary(outcome);
    EXPECT_EQ(emu.Read<int>(dy, 7 * 64)[6 * 64 + 63], 6);
  }
}

TEST_F(LaunchTest, ReportsDivergentBarriers) {
  const uint64_t dy = emu.Buffer(std::vector<float>(64));
  const auto outcome = emu.Launch("barrier_in_branch", {1}, {64}, dy);
  EXPECT_FALSE(outcome.completed);
  ASSERT_TRUE(Has(outcome, "barrier_divergence")) << Summary(outcome);
  EXPECT_EQ(outcome.findings[0].file, "kernels.cu");
}

TEST_F(LaunchTest, BudgetEndsEndlessLoops) {
  emu.options.max_warp_instructions = 100'000;
  const uint64_t dy = emu.Buffer(std::vector<int>(1));
  const auto outcome = emu.Launch("endless", {2}, {64}, dy);
  EXPECT_FALSE(outcome.completed);
  EXPECT_TRUE(Has(outcome, "instruction_budget")) << Summary(outcome);
  emu.options = {};
  emu.options.max_block_warp_instructions = 100'000;
  const auto block = emu.Launch("endless", {2}, {64}, dy);
  ASSERT_TRUE(Has(block, "instruction_budget")) << Summary(block);
  EXPECT_NE(block.findings[0].message.find("The block executed more than 100000"),
            std::string::npos);
}

TEST_F(LaunchTest, OutOfBoundsNamesTheBufferAndTheThread) {
  constexpr size_t kN = 1000;
  const uint64_t da = emu.Buffer(Floats(kN * 4, 5)), db = emu.Buffer(Floats(kN * 4 - 4, 6)),
                 dc = emu.Buffer(std::vector<float>(kN * 4));
  const auto outcome = emu.Launch("silu_mul", {4}, {256}, da, db, dc, int{kN});
  ASSERT_FALSE(outcome.completed);
  ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
  const records::Finding& finding = outcome.findings[0];
  EXPECT_EQ(finding.code, "out_of_bounds");
  EXPECT_NE(finding.where.find("buffer 1"), std::string::npos) << finding.where;
  EXPECT_EQ(finding.block, (plan::Dim3{3, 0, 0}));
  EXPECT_EQ(finding.thread, (plan::Dim3{999 - 768, 0, 0}));
  EXPECT_EQ(finding.file, "kernels.cu");
  EXPECT_GT(finding.line, 40);
  EXPECT_EQ(finding.kernel, "silu_mul");
}

TEST_F(LaunchTest, RejectsMisalignedVectorAccess) {
  const uint64_t da = emu.Buffer(Floats(4096, 5)), db = emu.Buffer(Floats(4096, 6)),
                 dc = emu.Buffer(std::vector<float>(4096));
  const auto outcome = emu.Launch("silu_mul", {1}, {256}, da + 4, db, dc, 256);
  ASSERT_FALSE(outcome.completed);
  EXPECT_EQ(outcome.findings[0].code, "misaligned") << Summary(outcome);
}

TEST_F(LaunchTest, SymbolsAndCallsMatch) {
  constexpr size_t kN = 100;
  const auto x = Floats(kN, 12), table = Floats(64, 13);
  std::memcpy(emu.memory().Host(*emu.memory().SymbolAddress("table")), table.data(), 256);
  const uint64_t dx = emu.Buffer(x), dy = emu.Buffer(std::vector<float>(kN));
  auto outcome = emu.Launch("symbols", {1}, {128}, dx, dy, int{kN});
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  auto y = emu.Read<float>(dy, kN);
  for (size_t i = 0; i < kN; ++i) EXPECT_NEAR(y[i], x[i] * table[i & 63] + table[3] + 2.5f, 1e-6);
  outcome = emu.Launch("calls", {1}, {128}, dx, dy, int{kN});
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  y = emu.Read<float>(dy, kN);
  auto f = [](float a) { return a > 0 ? std::sqrt(a) : -a; };
  for (size_t i = 0; i < kN; ++i) EXPECT_NEAR(y[i], f(x[i]) + f(2 * x[i]) + 4 * x[i], 1e-5) << i;
}

TEST_F(LaunchTest, VotesMatch) {
  const auto x = Ints(64, 14);
  const uint64_t dx = emu.Buffer(x), dy = emu.Buffer(std::vector<unsigned>(64));
  const auto outcome = emu.Launch("warp_votes", {1}, {64}, dx, dy);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  const auto y = emu.Read<unsigned>(dy, 64);
  unsigned odd = 0;
  for (int v : x) odd += v & 1;
  for (size_t t = 0; t < 64; ++t) {
    unsigned ballot = 0, same = 0, sum = 0, active = 0;
    bool five = false, small = true;
    for (size_t l = 0; l < 32; ++l) {
      const int v = x[t / 32 * 32 + l];
      ballot |= static_cast<unsigned>(v & 1) << l;
      same += (v & 3) == (x[t] & 3);
      sum += static_cast<unsigned>(v);
      five |= v == 5;
      small &= v < 100;
      active += (v & 2) != 0;
    }
    unsigned r = ballot + same;
    r ^= sum;
    r += unsigned{five} + 2 * unsigned{small};
    if (x[t] & 2) r += active;
    r += odd;
    const auto v = static_cast<unsigned>(x[t]);
    unsigned reversed = 0;
    for (int b = 0; b < 32; ++b) reversed |= ((v >> b) & 1u) << (31 - b);
    const uint64_t both = uint64_t{r} << 32 | v;
    unsigned permuted = 0;
    const unsigned selector = 0x3041;
    for (int b = 0; b < 4; ++b) {
      permuted |= static_cast<unsigned>(both >> (8 * ((selector >> (4 * b)) & 7)) & 0xff)
                  << (8 * b);
    }
    const auto zeros = static_cast<unsigned>(v == 0 ? 32 : __builtin_clz(v));
    ASSERT_EQ(y[t], r + reversed + zeros + permuted) << t;
  }
}

TEST_F(LaunchTest, ResultsDoNotDependOnThreadsSeedsOrVectors) {
  constexpr size_t kRows = 33, kN = 500;
  std::vector<std::vector<float>> results;
  for (int level = 0; level <= VectorLevel(); ++level) {
    for (int threads : {1, 2}) {
      Interpreter other(TestKernels(), level);
      other.threads = threads;
      other.options.seed = static_cast<uint64_t>(threads * 7 + level);
      other.dynamic_shared = 32;
      const uint64_t dx = other.Buffer(Floats(kRows * kN, 15)),
                     dy = other.Buffer(std::vector<float>(kRows * kN));
      const auto outcome = other.Launch("softmax_rows", {kRows}, {256}, dx, dy, int{kN});
      ASSERT_TRUE(outcome.completed) << Summary(outcome);
      results.push_back(other.Read<float>(dy, kRows * kN));
      EXPECT_EQ(results.back(), results.front()) << level << threads;
    }
  }
}

TEST_F(LaunchTest, FullChecksRespectWarpSynchronisation) {
  const uint64_t dx = emu.Buffer(Ints(64, 16)), dy = emu.Buffer(std::vector<int>(64));
  emu.options.full_checks = true;
  const auto good = emu.Launch("warp_exchange", {1}, {64}, dx, dy);
  EXPECT_TRUE(good.completed && good.findings.empty()) << Summary(good);
  const auto racy = emu.Launch("warp_exchange_racy", {1}, {64}, dx, dy);
  EXPECT_TRUE(Has(racy, "missing_syncwarp")) << Summary(racy);
  const auto unwritten = emu.Launch("reads_unwritten", {1}, {64}, dx, dy);
  EXPECT_TRUE(Has(unwritten, "uninitialized_shared")) << Summary(unwritten);
}

TEST_F(LaunchTest, CooperativeGridsSynchronise) {
  const uint64_t dx = emu.Buffer(std::vector<int>(9)), dy = emu.Buffer(std::vector<int>(9 * 64));
  emu.cooperative = true;
  const auto outcome = emu.Launch("grid_sums", {9}, {64}, dx, dy);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  EXPECT_EQ(emu.Read<int>(dy, 9 * 64), std::vector<int>(9 * 64, 45));
}

TEST_F(LaunchTest, CarriesPropagate) {
  Interpreter other(R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) {
.reg .b32 %r<9>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [p];
ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
add.cc.u32 %r5, %r1, %r3;
addc.u32 %r6, %r2, %r4;
sub.cc.u32 %r7, %r1, %r3;
subc.u32 %r8, %r2, %r4;
st.global.v4.u32 [%rd1], {%r5, %r6, %r7, %r8};
ret; }
)");
  const uint64_t a = 0x01234567ffffffffu, b = 0x7777777700000001u;
  const uint64_t dp = other.Buffer(std::vector<uint64_t>{a, b});
  ASSERT_TRUE(other.Launch("k", {1}, {1}, dp).completed);
  EXPECT_EQ(other.Read<uint64_t>(dp, 2), (std::vector<uint64_t>{a + b, a - b}));
}

TEST_F(LaunchTest, ThreadsShareTheBudget) {
  constexpr size_t kN = 64 * 256;
  const uint64_t da = emu.Buffer(Floats(kN * 4, 1)), db = emu.Buffer(Floats(kN * 4, 2)),
                 dc = emu.Buffer(std::vector<float>(kN * 4));
  const auto launch = [&] { return emu.Launch("silu_mul", {64}, {256}, da, db, dc, int{kN}); };
  const auto needed = launch();
  ASSERT_TRUE(needed.completed) << Summary(needed);
  emu.threads = 16;
  emu.options.max_warp_instructions = needed.counters.warp_instructions + 1;
  const auto enough = launch();
  EXPECT_TRUE(enough.completed) << Summary(enough);
  emu.options.max_warp_instructions = needed.counters.warp_instructions / 2;
  EXPECT_TRUE(Has(launch(), "instruction_budget"));
}

TEST_F(LaunchTest, BudgetEndsEndlessIndexedBranches) {
  Interpreter other(R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k() {
.reg .b32 %r<3>;
mov.u32 %r1, 0;
LL:
ts: .branchtargets LL, LL;
brx.idx %r1, ts;
ret; }
)");
  other.options.max_block_warp_instructions = 100'000;
  const auto outcome = other.Launch("k", {1}, {32});
  EXPECT_TRUE(Has(outcome, "instruction_budget")) << Summary(outcome);
}

TEST_F(LaunchTest, UnsupportedInstructionsMatterOnlyWhenLaunched) {
  Interpreter other(R"(.version 8.0
.target sm_100a
.address_size 64
.visible .entry good() { ret; }
.visible .entry bad() { tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned; ret; }
)");
  EXPECT_TRUE(other.Launch("good", {1}, {32}).completed);
  const auto outcome = other.Launch("bad", {1}, {32});
  EXPECT_FALSE(outcome.completed);
  EXPECT_EQ(outcome.unsupported, "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned");
}

}  // namespace
}  // namespace cupel::emu
