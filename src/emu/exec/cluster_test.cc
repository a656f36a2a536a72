// SPDX-License-Identifier: Apache-2.0
#include "emu/exec/cluster.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"
#include "emu/exec/sampling.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

class ClusterTest : public testing::Test {
 protected:
  uint64_t Zeros(size_t count) { return emu.Buffer(std::vector<int>(count)); }
  static void ExpectNoFindings(const LaunchOutcome& outcome) {
    EXPECT_TRUE(outcome.completed);
    EXPECT_EQ(Summary(outcome), "");
  }
  static void ExpectFinding(const LaunchOutcome& outcome, const std::string& code,
                            const std::string& part) {
    EXPECT_FALSE(outcome.completed);
    ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
    EXPECT_EQ(outcome.findings[0].code, code) << Summary(outcome);
    EXPECT_NE(Summary(outcome).find(part), std::string::npos) << Summary(outcome);
  }
  Interpreter emu{TestData("clusters.ptx")};
};

TEST_F(ClusterTest, BlocksKnowTheirPlace) {
  for (const plan::Dim3 c : {plan::Dim3{1, 1, 1}, plan::Dim3{4, 1, 1}, plan::Dim3{3, 2, 2}}) {
    const plan::Dim3 grid{12, 4, 6};
    emu.cluster = c;
    const uint64_t out = Zeros(18 * grid.Count());
    ExpectNoFindings(emu.Launch("ids", grid, {32}, out));
    const std::vector<uint32_t> all = emu.Read<uint32_t>(out, 18 * grid.Count());
    for (uint32_t i = 0; i < grid.Count(); ++i) {
      const uint32_t x = i % grid.x, y = i / grid.x % grid.y, z = i / grid.x / grid.y;
      const std::vector<uint32_t> want{x,
                                       y,
                                       z,
                                       x % c.x + c.x * (y % c.y + c.y * (z % c.z)),
                                       x % c.x,
                                       y % c.y,
                                       z % c.z,
                                       c.x,
                                       c.y,
                                       c.z,
                                       x / c.x,
                                       y / c.y,
                                       z / c.z,
                                       grid.x / c.x,
                                       grid.y / c.y,
                                       grid.z / c.z,
                                       c.x * c.y * c.z,
                                       c.Count() > 1 ? 1u : 0u};
      EXPECT_EQ(std::vector<uint32_t>(all.begin() + 18 * i, all.begin() + 18 * (i + 1)), want);
    }
  }
}

TEST_F(ClusterTest, PointersNameTheirBlock) {
  emu.CheckEverything();
  const uint64_t out = Zeros(6 * 8);
  ExpectNoFindings(emu.Launch("ranks", {8}, {32}, out));  // the kernel requires clusters of 4
  for (int block = 0; block < 8; ++block) {
    const int rank = block % 4, next = (rank + 1) % 4;
    const std::vector<int> want{rank, next, 3, 2, 1, next};
    EXPECT_EQ(emu.Read<int>(out + 24 * static_cast<uint64_t>(block), 6), want);
  }
}

TEST_F(ClusterTest, HistogramsAddToOtherBlocks) {
  constexpr int kCount = 5000, kBins = 200;
  std::vector<int> values(kCount), want(kBins);
  Random random(7);
  for (int& value : values)
    ++want[static_cast<size_t>(value = static_cast<int>(random.Below(kBins)))];
  for (const uint32_t blocks : {2u, 4u, 8u}) {
    for (const uint64_t schedule : {0u, 1u, 2u}) {
      emu.CheckEverything();
      emu.options.schedule = schedule;
      emu.cluster = {blocks};
      emu.dynamic_shared = 4 * kBins / blocks;
      const uint64_t bins = Zeros(kBins);
      ExpectNoFindings(emu.Launch("histogram", {2 * blocks}, {96}, emu.Buffer(values), kCount, bins,
                                  static_cast<int>(kBins / blocks)));
      EXPECT_EQ(emu.Read<int>(bins, kBins), want);
    }
  }
}

TEST_F(ClusterTest, ManyClustersRunOnSeveralThreads) {
  constexpr uint32_t kRows = 300, kColumns = 500;
  std::vector<float> in(kRows * kColumns);
  std::iota(in.begin(), in.end(), 0.0F);
  for (float& value : in) value = std::fmod(value * 7, 64.0F);
  for (const int threads : {1, 4}) {
    for (const uint32_t blocks : {2u, 16u}) {
      emu.threads = threads;
      emu.cluster = {blocks};
      const uint64_t out = emu.Buffer(std::vector<float>(kRows * blocks));
      ExpectNoFindings(emu.Launch("row_sums", {kRows * blocks}, {32}, emu.Buffer(in), out,
                                  static_cast<int>(kColumns)));
      const std::vector<float> sums = emu.Read<float>(out, kRows * blocks);
      for (uint32_t row = 0; row < kRows; ++row) {
        const float want =
            std::accumulate(in.begin() + row * kColumns, in.begin() + (row + 1) * kColumns, 0.0F);
        for (uint32_t rank = 0; rank < blocks; ++rank) EXPECT_EQ(sums[row * blocks + rank], want);
      }
    }
  }
}

TEST_F(ClusterTest, BarriersOrderAccesses) {
  emu.CheckEverything();
  emu.cluster = {5};
  const uint64_t out = Zeros(20);
  ExpectNoFindings(emu.Launch("ring", {20}, {64}, out, 11));
  for (int block = 0; block < 20; ++block) {
    const int rank = block % 5, first = block - rank;
    int want = first + (rank + 5 * 11 - 11) % 5;
    for (int round = 0; round < 11; ++round) want += (rank + 5 * 11 - 11 + round) % 5;
    EXPECT_EQ(emu.Read<int>(out, 20)[static_cast<size_t>(block)], want);
  }
  emu.cluster = {4};
  const uint64_t values = Zeros(16), read = Zeros(16);
  ExpectNoFindings(emu.Launch("exchange", {16}, {32}, values, read));
  for (int block = 0; block < 16; ++block) {
    EXPECT_EQ(emu.Read<int>(read, 16)[static_cast<size_t>(block)],
              block / 4 * 4 + (block + 1) % 4 + 1);
  }
  EXPECT_NE(Summary(emu.Launch("exchange_unordered", {16}, {32}, values, read)).find("global_race"),
            std::string::npos);
}

TEST_F(ClusterTest, ReportsWrongAddressesInOtherBlocks) {
  emu.cluster = {2};
  const uint64_t out = Zeros(4);
  ExpectNoFindings(emu.Launch("read_at", {4}, {32}, out, 1, 252));
  ExpectFinding(emu.Launch("read_at", {4}, {32}, out, 1, 256), "out_of_bounds",
                "outside of shared memory of block (1, 0, 0). shared memory of block (1, 0, 0) + "
                "256 bytes, 4 past its end (256 bytes)");
  ExpectFinding(emu.Launch("read_at", {4}, {32}, out, 1, 2), "misaligned", "block (1, 0, 0)");
  ExpectFinding(emu.Launch("read_at", {4}, {32}, out, 2, 0), "out_of_bounds",
                "of rank 2, but the cluster has 2 blocks");
  ExpectFinding(emu.Launch("leaves_early", {4}, {32}, out), "exited_block",
                "shared memory of block (");
}

TEST_F(ClusterTest, FindingsDoNotDependOnTheThreads) {
  emu.cluster = {2, 2};
  std::string first;
  for (const int threads : {1, 4}) {
    emu.threads = threads;
    const auto outcome = emu.Launch("leaves_early", {40, 4}, {32}, Zeros(40));
    EXPECT_EQ(outcome.findings.size(), 1u);
    if (threads == 1) first = Summary(outcome);
    EXPECT_EQ(Summary(outcome), first);
  }
}

TEST_F(ClusterTest, BlocksThatExitHaveArrived) {
  emu.cluster = {4};
  ExpectNoFindings(emu.Launch("absent", {8}, {64}, Zeros(1), 2, 1));
}

TEST_F(ClusterTest, ReportsWaitsThatNeverEnd) {
  emu.cluster = {4};
  const auto absent = emu.Launch("absent", {8}, {64}, Zeros(1), 2, 0);
  ExpectFinding(absent, "deadlock", "no running thread can change it");
  EXPECT_EQ(absent.findings[0].line, MarkedLine("clusters.cu", "absent"));
  emu.cluster = {2};
  ExpectFinding(emu.Launch("mixed_barriers", {2}, {64}, Zeros(2)), "deadlock",
                "No thread of the cluster can continue");
  for (const bool checked : {false, true}) {
    if (checked) emu.CheckEverything();
    const uint64_t out = Zeros(4);
    ExpectNoFindings(emu.Launch("flag_in_shared", {4}, {32}, out, 1));
    EXPECT_EQ(emu.Read<int>(out, 4), (std::vector<int>{0, 7, 0, 7}));
    const auto flag = emu.Launch("flag_in_shared", {4}, {32}, out, 0);
    ExpectFinding(flag, "deadlock", "reads shared memory + ");
    EXPECT_EQ(flag.findings[0].line, MarkedLine("clusters.cu", "flag"));
  }
}

TEST_F(ClusterTest, GridBarriersWorkInClusters) {
  emu.CheckEverything();
  emu.cluster = {4};
  emu.cooperative = true;
  const uint64_t out = Zeros(32);
  ExpectNoFindings(emu.Launch("grid_and_cluster", {32}, {64}, Zeros(8), out));
  EXPECT_EQ(emu.Read<int>(out, 32), std::vector<int>(32, 31 * 32 / 2));
}

TEST_F(ClusterTest, SamplesWholeClusters) {
  const plan::Dim3 grid{40, 6, 2}, cluster{4, 2, 1};
  const std::vector<uint64_t> blocks = SampleBlocks(grid, cluster, 100, 3);
  EXPECT_EQ(blocks.size(), 104u);
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i] % 8, i % 8);
    EXPECT_EQ(blocks[i] / 8, blocks[i / 8 * 8] / 8);
  }
  emu.cluster = cluster;
  emu.only = blocks;
  const uint64_t out = emu.Buffer(std::vector<int>(18 * grid.Count(), -1));
  ExpectNoFindings(emu.Launch("ids", grid, {32}, out));
  const std::vector<int> values = emu.Read<int>(out, 18 * grid.Count());
  size_t written = 0;
  for (size_t i = 0; i < grid.Count(); ++i) written += values[18 * i] != -1;
  EXPECT_EQ(written, blocks.size());
}

TEST_F(ClusterTest, CountsAllBlocks) {
  emu.options.counters = true;
  emu.cluster = {4};
  const uint64_t out = emu.Buffer(std::vector<float>(64));
  const auto outcome =
      emu.Launch("row_sums", {64}, {32}, emu.Buffer(std::vector<float>(1600)), out, 100);
  ExpectNoFindings(outcome);
  EXPECT_EQ(outcome.counters.blocks_run, 64u);
  EXPECT_EQ(outcome.block_work.size(), 64u);
  EXPECT_EQ(outcome.counters.barriers, 64u * 2);
}

TEST_F(ClusterTest, ShadowsFollowToOtherBlocks) {
  auto run = ShadowRun::Create(emu.memory().base());
  ASSERT_TRUE(run);
  emu.shadows = run->get();
  emu.cluster = {2};
  std::vector<float> values(64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0F + 0.1F * static_cast<float>(i);
  const double want = std::accumulate(values.begin(), values.end(), 0.0);
  const uint64_t in = emu.Buffer(values), out = emu.Buffer(std::vector<float>(2));
  (*run)->memory().HoldsInput(in, 4 * values.size(), true);
  ExpectNoFindings(emu.Launch("row_sums", {2}, {32}, in, out, 64));
  for (uint64_t block = 0; block < 2; ++block) {
    const float sum = emu.Read<float>(out, 2)[block];
    const Shadow shadow =
        (*run)->memory().Read(out + 4 * block, DType::kF32, std::bit_cast<uint32_t>(sum));
    EXPECT_NEAR(shadow.exact, want, 1e-12);
    EXPECT_EQ(shadow.flags & kCauses, 0u);
  }
}

TEST_F(ClusterTest, RefusesClustersThatDoNotFitTheGrid) {
  emu.cluster = {4};
  ExpectFinding(emu.Launch("ids", {6}, {32}, Zeros(1)), "illegal_launch",
                "multiple of the cluster");
  emu.cluster = {17};
  ExpectFinding(emu.Launch("ids", {17}, {32}, Zeros(1)), "illegal_launch", "1 to 16 blocks");
}

/// A kernel whose threads share 64 words per block. %t: thread; %rank, %n: in the cluster; %acc:
/// the result.
std::string Program(const std::string& body) {
  return R"(.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<20>;
  .reg .b32 %r<20>;
  .reg .b32 %t, %rank, %n, %acc, %s;
  .reg .pred %p<5>;
  .shared .align 16 .b8 pad[32];
  .shared .align 16 .b8 words[256];
  .shared .align 8 .b64 bar;
  mov.u32 %t, %tid.x;
  mov.u32 %rank, %cluster_ctarank;
  mov.u32 %n, %cluster_nctarank;
  mov.u32 %acc, %ctaid.x;
  mad.lo.u32 %acc, %acc, 1000, %t;
  mov.u32 %s, words;
  shl.b32 %r1, %t, 2;
  add.u32 %r1, %s, %r1;
  st.shared.u32 [%r1], %acc;
)" + body +
         R"(
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ld.shared.u32 %r2, [%r1];
  mov.u32 %r3, %ctaid.x;
  shl.b32 %r3, %r3, 6;
  add.u32 %r3, %r3, %t;
  ld.param.u64 %rd1, [out];
  mul.wide.u32 %rd2, %r3, 8;
  add.u64 %rd1, %rd1, %rd2;
  st.global.v2.u32 [%rd1], {%acc, %r2};
  ret;
}
)";
}

LaunchOutcome RunBody(const std::string& body, uint32_t cluster = 2, bool lone_clusters = false) {
  Interpreter emu(Program(body));
  emu.CheckEverything();
  emu.lone_clusters = lone_clusters;
  emu.cluster = {cluster};
  return emu.Launch("k", {cluster}, {64}, emu.Buffer(std::vector<int>(128 * cluster)));
}

TEST(ClusterProgramTest, ReportsMisuseOfTheBarrier) {
  const auto expect = [](const std::string& body, const std::string& code,
                         const std::string& part) {
    const LaunchOutcome outcome = RunBody(body);
    EXPECT_FALSE(outcome.completed);
    EXPECT_NE(Summary(outcome).find("[" + code), std::string::npos) << body << Summary(outcome);
    EXPECT_NE(Summary(outcome).find(part), std::string::npos) << body << Summary(outcome);
  };
  const std::string arrive = "barrier.cluster.arrive;", wait = "barrier.cluster.wait;";
  EXPECT_EQ(Summary(RunBody(arrive + wait + arrive + wait)), "");
  expect(wait, "invalid_barrier", "without having arrived");
  expect(arrive + arrive, "invalid_barrier", "twice");
  expect(arrive + wait + wait, "invalid_barrier", "without having arrived");
  // Half of a warp arrives for the next phase before the other half has waited for this one.
  EXPECT_EQ(Summary(RunBody(arrive + R"(setp.lt.u32 %p1, %t, 16;
@%p1 bra A;
barrier.cluster.wait;
barrier.cluster.arrive;
A: barrier.cluster.wait;
@!%p1 bra B;
barrier.cluster.arrive;
barrier.cluster.wait;
B:)")),
            "");
  // Lanes of a warp that wait at two aligned instructions.
  expect(arrive + R"(setp.lt.u32 %p1, %t, 16;
@%p1 bra A;
barrier.cluster.wait.aligned;
bra B;
A: add.u32 %acc, %acc, 1;
barrier.cluster.wait.aligned;
B:)",
         "barrier_divergence", "different barriers");
}

TEST(ClusterProgramTest, OnlyClusterAddressesReachOtherBlocks) {
  const std::string map = R"(barrier.cluster.arrive.release;
barrier.cluster.wait.acquire;
xor.b32 %r5, %rank, 1;
mapa.shared::cluster.u32 %r6, %r1, %r5;
)";
  EXPECT_EQ(Summary(RunBody(map + "ld.shared::cluster.u32 %acc, [%r6];")), "");
  for (const char* space : {"", "::cta"}) {
    const auto outcome = RunBody(map + "ld.shared" + space + ".u32 %acc, [%r6];");
    EXPECT_NE(Summary(outcome).find("[out_of_bounds"), std::string::npos) << Summary(outcome);
    EXPECT_NE(Summary(outcome).find("needs .shared::cluster"), std::string::npos);
  }
  // The own block's addresses are valid in both spaces, also after mapa.
  EXPECT_EQ(Summary(RunBody(map + R"(mapa.shared::cluster.u32 %r7, %r1, %rank;
ld.shared::cta.u32 %acc, [%r7];
ld.shared::cluster.u32 %acc, [%r1];
)")),
            "");
}

TEST(ClusterProgramTest, BlocksSendToThemselvesOnlyInClusters) {
  const std::string prepare = R"(setp.ne.u32 %p1, %t, 0;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4;
READY: mov.u32 %r5, bar;
bar.sync 0;
@%p1 bra SENT;
)";
  const std::string wait = R"(
SENT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
@!%p1 bra SENT;)";
  for (const char* send :
       {"st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%s], 7, [%r5];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
        "[%s], 7, [%r5];"}) {
    const std::string body = prepare + send + wait;
    EXPECT_EQ(Summary(RunBody(body, 1, true)), "") << send;
    EXPECT_EQ(Summary(RunBody(body, 2)), "") << send;
    const std::string alone = Summary(RunBody(body, 1));
    EXPECT_NE(alone.find("not launched as clusters"), std::string::npos) << send << alone;
  }
  const std::string is_explicit = R"(mov.pred %p1, %is_explicit_cluster;
@%p1 bra END;
trap;
END:)";
  EXPECT_EQ(Summary(RunBody(is_explicit, 1, true)), "");
  EXPECT_NE(Summary(RunBody(is_explicit, 1)), "");
}

TEST(ClusterProgramTest, RelaxedArrivalsOrderOnlyFencedAccesses) {
  // Thread t writes its word, and reads that of the thread in the other warp.
  const auto body = [](const std::string& before, const std::string& arrive) {
    return "st.shared.u32 [%r1], %t;" + before + "barrier.cluster.arrive" + arrive + R"(;
barrier.cluster.wait;
xor.b32 %r5, %t, 32;
shl.b32 %r5, %r5, 2;
add.u32 %r5, %s, %r5;
ld.shared.u32 %acc, [%r5];
)";
  };
  EXPECT_EQ(Summary(RunBody(body("", ".release"))), "");
  EXPECT_EQ(Summary(RunBody(body("fence.acq_rel.cluster;", ".relaxed"))), "");
  EXPECT_NE(Summary(RunBody(body("", ".relaxed"))).find("[shared_race"), std::string::npos);
}

/// Random steps, separated by barriers, as PTX and as C++.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {
    blocks_ = 1 + static_cast<uint32_t>(random_.Below(16));
    words_.resize(2 * blocks_ * 64);
    acc_.resize(words_.size());
    for (uint32_t i = 0; i < words_.size(); ++i) words_[i] = acc_[i] = i / 64 * 1000 + i % 64;
    const auto steps = 3 + random_.Below(8);
    for (uint64_t step = 0; step < steps; ++step) {
      body_ += random_.Below(2) == 0
                   ? "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
                   : "barrier.cluster.arrive.release;\nbarrier.cluster.wait;\n";
      Step();
    }
  }
  void Check() {
    Interpreter emu(Program(body_));
    emu.CheckEverything();
    emu.options.schedule = random_.Below(3);
    emu.cluster = {blocks_};
    const uint64_t out = emu.Buffer(std::vector<uint32_t>(2 * words_.size()));
    const LaunchOutcome outcome = emu.Launch("k", {2 * blocks_}, {64}, out);
    EXPECT_EQ(Summary(outcome), "") << body_;
    const std::vector<uint32_t> values = emu.Read<uint32_t>(out, 2 * words_.size());
    for (size_t i = 0; i < words_.size(); ++i) {
      ASSERT_EQ(values[2 * i], acc_[i]) << body_ << i << " of clusters of " << blocks_;
      ASSERT_EQ(values[2 * i + 1], words_[i]) << body_ << i << " of clusters of " << blocks_;
    }
  }

 private:
  void Step() {
    const auto shift = static_cast<uint32_t>(random_.Below(16));
    const auto factor = 1 + 2 * static_cast<uint32_t>(random_.Below(32));
    const auto offset = static_cast<uint32_t>(random_.Below(64));
    const uint64_t kind = random_.Below(3);
    const bool is_generic = random_.Below(2) == 0;
    const bool collides = kind == 2 && random_.Below(2) == 0;  // atomics may meet
    body_ += fmt::format(
        "add.u32 %r5, %rank, {};\nrem.u32 %r5, %r5, %n;\nmad.lo.u32 %r6, %t, {}, {};\n"
        "and.b32 %r6, %r6, {};\nshl.b32 %r6, %r6, 2;\nadd.u32 %r6, %s, %r6;\n",
        shift, factor, offset, collides ? 7 : 63);
    std::string at = ".shared::cluster", address = "[%r7]";
    if (is_generic) {
      body_ += "cvt.u64.u32 %rd5, %r6;\ncvta.shared.u64 %rd6, %rd5;\nmapa.u64 %rd7, %rd6, %r5;\n";
      at.clear();
      address = "[%rd7]";
    } else {
      body_ += "mapa.shared::cluster.u32 %r7, %r6, %r5;\n";
    }
    if (kind == 0)
      body_ += "ld" + at + ".u32 %r8, " + address + ";\nmad.lo.u32 %acc, %acc, 3, %r8;\n";
    if (kind == 1) body_ += "st" + at + ".u32 " + address + ", %acc;\n";
    if (kind == 2) body_ += "red" + at + ".add.u32 " + address + ", %acc;\n";
    const std::vector<uint32_t> before = words_;
    for (uint32_t i = 0; i < words_.size(); ++i) {
      const uint32_t block = i / 64, first = block - block % blocks_;
      const uint32_t word = (i % 64 * factor + offset) & (collides ? 7 : 63);
      const uint32_t place = (first + (block % blocks_ + shift) % blocks_) * 64 + word;
      if (kind == 0) acc_[i] = acc_[i] * 3 + before[place];
      if (kind == 1) words_[place] = acc_[i];
      if (kind == 2) words_[place] += acc_[i];
    }
  }

  Random random_;
  uint32_t blocks_;
  std::string body_;
  std::vector<uint32_t> words_, acc_;
};

TEST(ClusterProgramTest, RandomProgramsGiveTheExpectedValues) {
  for (uint64_t seed = 1; seed <= 60; ++seed) RandomProgram(seed).Check();
}

}  // namespace
}  // namespace cupel::emu
