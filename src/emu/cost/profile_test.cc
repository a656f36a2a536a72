// SPDX-License-Identifier: Apache-2.0

#include "emu/cost/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "emu/core/launch_request.h"
#include "emu/core/op_profile.h"
#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

using records::InstructionClass;
using records::LaunchCounters;
using records::LineCounters;

constexpr const char* kHead = R"(
.version 8.0
.target sm_90
.address_size 64
)";

// Line 10: lane-strided loads. Line 11: half of the lanes take a branch with two additions on line
// 12. Line 13: shared stores with a stride that the launch sets. Line 14: one atomic per lane. Line
// 15: a guarded store.
constexpr const char* kKernel = R"(
.visible .entry work(.param .u64 in, .param .u32 stride, .param .u32 shared_stride, .param .u64 sum)
{
  .reg .pred %p<3>;
  .reg .b32 %r<12>;
  .reg .b64 %rd<6>;
  .shared .align 4 .b8 buffer[8192];
  .loc 1 9 1
  ld.param.u64 %rd1, [in];
  ld.param.u32 %r1, [stride];
  ld.param.u32 %r2, [shared_stride];
  ld.param.u64 %rd4, [sum];
  mov.u32 %r3, %tid.x;
  mul.lo.s32 %r4, %r3, %r1;
  mul.wide.s32 %rd2, %r4, 1;
  add.s64 %rd3, %rd1, %rd2;
  .loc 1 10 1
  ld.global.u32 %r5, [%rd3];
  .loc 1 11 1
  setp.lt.u32 %p1, %r3, 16;
  @%p1 bra SKIP;
  .loc 1 12 1
  add.s32 %r5, %r5, 1;
  add.s32 %r5, %r5, 1;
SKIP:
  .loc 1 13 1
  mul.lo.s32 %r6, %r3, %r2;
  mov.u32 %r7, buffer;
  add.s32 %r8, %r7, %r6;
  st.shared.u32 [%r8], %r5;
  .loc 1 14 1
  red.global.add.u32 [%rd4], 1;
  .loc 1 15 1
  setp.lt.u32 %p2, %r3, 4;
  @%p2 st.global.u32 [%rd3], %r5;
  ret;
}
)";

class ProfileTest : public ::testing::Test {
 protected:
  LaunchCounters Run(uint32_t stride, uint32_t shared_stride, uint32_t blocks = 1,
                     plan::Dim3 block = {32, 1, 1}) {
    Interpreter machine(std::string(kHead) + ".file 1 \"kernel.cu\"\n" + kKernel);
    const uint64_t in = machine.Buffer(std::vector<uint32_t>(4096, 1));
    const uint64_t sum = machine.Buffer(std::vector<uint32_t>(1, 0));
    const LaunchOutcome outcome =
        machine.Launch("work", {blocks, 1, 1}, block, in, stride, shared_stride, sum);
    EXPECT_TRUE(outcome.completed) << Summary(outcome);
    return outcome.counters;
  }
  static const LineCounters& At(const LaunchCounters& counters, int line) {
    static const LineCounters kNothing;
    for (const LineCounters& entry : counters.lines) {
      if (entry.line == line) return entry;
    }
    ADD_FAILURE() << "no line " << line;
    return kNothing;
  }
};

TEST_F(ProfileTest, UnitStrideUsesWholeSectors) {
  const LaunchCounters counters = Run(4, 4);
  const LineCounters& load = At(counters, 10);
  EXPECT_EQ(load.file, "kernel.cu");
  EXPECT_EQ(load.work.load_requests, 1u);
  EXPECT_EQ(load.work.load_sectors, 4u);
  EXPECT_EQ(load.work.touched_bytes, 128u);
  EXPECT_EQ(load.lane_stride, 4);
}

TEST_F(ProfileTest, EachStridedLaneLoadsASector) {
  const LineCounters load = At(Run(64, 4), 10);
  EXPECT_EQ(load.work.load_sectors, 32u);
  EXPECT_EQ(load.work.touched_bytes, 128u);
  EXPECT_EQ(load.lane_stride, 64);
}

TEST_F(ProfileTest, BroadcastLoadsOneSector) {
  const LineCounters load = At(Run(0, 4), 10);
  EXPECT_EQ(load.work.load_sectors, 1u);
  EXPECT_EQ(load.work.load_bytes, 128u);
  EXPECT_EQ(load.work.touched_bytes, 4u);
}

TEST_F(ProfileTest, FindsStrideDespiteABreakInTheAddresses) {
  // Two rows of 16 threads: the second row has the addresses of the first.
  EXPECT_EQ(At(Run(8, 4, 1, {16, 2, 1}), 10).lane_stride, 8);
  // Sixteen rows of two threads: every other distance is negative.
  EXPECT_EQ(At(Run(8, 4, 1, {2, 16, 1}), 10).lane_stride, records::kIrregular);
}

TEST_F(ProfileTest, CountsDivergentLanes) {
  const LaunchCounters counters = Run(4, 4);
  const LineCounters& branch = At(counters, 11);
  EXPECT_EQ(branch.work.branches, 1u);
  EXPECT_EQ(branch.work.divergent_branches, 1u);
  const LineCounters& rest = At(counters, 12);
  EXPECT_EQ(rest.work.warp_instructions, 2u);
  EXPECT_EQ(rest.work.lane_instructions, 32u);
  EXPECT_EQ(At(counters, 13).work.lane_instructions, 4u * 32);  // together again
}

TEST_F(ProfileTest, BankConflictsAreExtraWavefronts) {
  EXPECT_EQ(At(Run(4, 4), 13).work.shared_wavefronts, 1u);
  const LineCounters eight = At(Run(4, 32), 13);
  EXPECT_EQ(eight.work.shared_wavefronts, 8u);
  EXPECT_EQ(eight.work.shared_ideal_wavefronts, 1u);
  EXPECT_EQ(At(Run(4, 128), 13).work.shared_wavefronts, 32u);
}

TEST_F(ProfileTest, AtomicsAtOneAddressAreSerialised) {
  const LaunchCounters counters = Run(4, 4, 3);
  EXPECT_EQ(counters.work.atomic_requests, 3u);
  EXPECT_EQ(counters.work.atomic_turns, 96u);
  EXPECT_EQ(counters.hottest_atomics, 96u);
  EXPECT_EQ(counters.global_atomics, 96u);
}

// What a warp adds at `stride` bytes between its lanes.
class VectorAtomics : public ::testing::Test {
 protected:
  static LaunchCounters Run(const std::string& instruction, uint32_t stride) {
    Interpreter machine(std::string(kHead) + R"(
.visible .entry work(.param .u64 to, .param .u32 stride)
{
  .reg .b32 %r<4>;
  .reg .f32 %f<2>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [stride];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r2, %r1;
  add.s64 %rd3, %rd1, %rd2;
  mov.f32 %f1, 0f3F800000;
  )" + instruction + R"(
  ret;
}
)");
    const uint64_t to = machine.Buffer(std::vector<uint32_t>(4096, 0));
    const LaunchOutcome outcome = machine.Launch("work", {1, 1, 1}, {32, 1, 1}, to, stride);
    EXPECT_TRUE(outcome.completed) << Summary(outcome);
    return outcome.counters;
  }
  static constexpr const char* kOne = "red.global.add.f32 [%rd3], %f1;";
  static constexpr const char* kFour = "red.global.add.v4.f32 [%rd3], {%f1, %f1, %f1, %f1};";
};

TEST_F(VectorAtomics, AreOneRequestOfWholeSectors) {
  const LaunchCounters counters = Run(kFour, 16);
  EXPECT_EQ(counters.work.atomic_requests, 1u);
  EXPECT_EQ(counters.work.atomic_lanes, 32u);
  EXPECT_EQ(counters.work.atomic_sectors, 16u);  // 512 bytes
  EXPECT_EQ(counters.global_atomics, 128u);
  EXPECT_EQ(counters.hottest_atomics, 2u);  // a line of neighbours
}

TEST_F(VectorAtomics, CostAsMuchAsTheSameBytesInScalars) {
  const LaunchCounters scalars = Run(kOne, 4);
  EXPECT_EQ(scalars.work.atomic_sectors, 4u);
  EXPECT_EQ(scalars.hottest_atomics, Run(kFour, 16).hottest_atomics);
}

TEST_F(VectorAtomics, AtOnePlaceTakeTurns) {
  EXPECT_EQ(Run(kFour, 0).hottest_atomics, 32u);
  EXPECT_EQ(Run(kFour, 32).work.atomic_sectors, 32u);  // each half of a sector
}

// Blocks take numbers from a counter until 320 are taken, and do the same work for each.
constexpr const char* kShared = R"(
.visible .entry shared_work(.param .u64 next)
{
  .reg .pred %p<3>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [next];
TAKE:
  atom.global.add.u32 %r1, [%rd1], 1;
  setp.ge.u32 %p1, %r1, 320;
  @%p1 bra DONE;
  mov.u32 %r2, 0;
WORK:
  add.s32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, 2000;
  @%p2 bra WORK;
  bra TAKE;
DONE:
  ret;
}
)";

TEST(SharedWork, IsSpreadOverBlocksThatRunTogether) {
  Interpreter machine(std::string(kHead) + kShared);
  const auto most_of_mean = [&](uint64_t resident) {
    machine.resident_blocks = resident;
    const uint64_t next = machine.Buffer(std::vector<uint32_t>(1, 0));
    const LaunchOutcome outcome = machine.Launch("shared_work", {16, 1, 1}, {1, 1, 1}, next);
    EXPECT_TRUE(outcome.completed) << Summary(outcome);
    EXPECT_EQ(machine.Read<uint32_t>(next, 1)[0], 320u + 16);
    const std::vector<uint32_t>& work = outcome.block_work;
    const double sum = std::accumulate(work.begin(), work.end(), 0.0);
    return *std::max_element(work.begin(), work.end()) / (sum / static_cast<double>(work.size()));
  };
  EXPECT_LT(most_of_mean(16), 1.2);
  EXPECT_LT(most_of_mean(1000), 1.2);
}

TEST_F(ProfileTest, GuardedInstructionsCountTheirOwnLanes) {
  const LineCounters store = At(Run(4, 4), 15);
  EXPECT_EQ(store.work.store_bytes, 16u);
  EXPECT_EQ(store.work.warp_instructions, 3u);
  EXPECT_EQ(store.work.lane_instructions, 32u + 4 + 32);
}

TEST_F(ProfileTest, InstructionMixAddsUpToTheTotal) {
  const LaunchCounters counters = Run(4, 4, 5);
  const uint64_t sum = std::accumulate(counters.mix.begin(), counters.mix.end(), uint64_t{0});
  EXPECT_EQ(sum, counters.work.warp_instructions);
  EXPECT_EQ(counters.mix[static_cast<size_t>(InstructionClass::kAtomic)], 5u);
  EXPECT_EQ(counters.mix[static_cast<size_t>(InstructionClass::kGlobal)], 10u);
}

TEST_F(ProfileTest, ScalesCountsToAllBlocks) {
  const LaunchCounters all = Run(4, 4, 128);
  const LaunchCounters some = Run(4, 4, 12800);
  EXPECT_EQ(all.blocks_counted, 128u);
  EXPECT_EQ(some.blocks_counted, 128u);
  EXPECT_EQ(some.work.load_sectors, 100 * all.work.load_sectors);
  EXPECT_EQ(some.hottest_atomics, 12800u * 32);
}

TEST_F(ProfileTest, StrideVoteUsesTheFirstCountedBlock) {
  StrideVote early, late;
  early.Cast(4, 3);
  for (int i = 0; i < 5; ++i) late.Cast(8, 7);
  late.Cast(4, 9);  // another block: ignored
  EXPECT_EQ(late.stride, 8);
  EXPECT_EQ(late.votes, 5u);
  late.Cast(16, 3);
  EXPECT_EQ(late.stride, 16);
  EXPECT_EQ(early.block, late.block);
}

// Two guarded loads: all warps execute the first, one of four the second.
TEST_F(ProfileTest, GuardedLoadsWaitTogether) {
  Interpreter machine(std::string(kHead) + R"(
.visible .entry sum(.param .u64 in, .param .u64 out, .param .u32 first, .param .u32 second)
{
  .reg .pred %p<3>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  ld.param.u32 %r1, [first];
  ld.param.u32 %r2, [second];
  mov.u32 %r3, %tid.x;
  mul.wide.s32 %rd3, %r3, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  mov.u32 %r4, 0;
  mov.u32 %r5, 0;
  setp.ge.u32 %p1, %r3, %r1;
  @%p1 bra FIRST;
  ld.global.u32 %r4, [%rd4];
FIRST:
  setp.ge.u32 %p2, %r3, %r2;
  @%p2 bra SECOND;
  ld.global.u32 %r5, [%rd4+4096];
SECOND:
  add.s32 %r6, %r4, %r5;
  st.global.u32 [%rd5], %r6;
  ret;
}
)");
  const uint64_t in = machine.Buffer(std::vector<uint32_t>(4096, 1));
  const uint64_t out = machine.Buffer(std::vector<uint32_t>(128, 0));
  const auto chain_loads = [&](uint32_t first, uint32_t second) {
    return machine.Launch("sum", {1, 1, 1}, {128, 1, 1}, in, out, first, second)
        .counters.chain_loads;
  };
  EXPECT_EQ(chain_loads(128, 128), 4u);
  EXPECT_EQ(chain_loads(32, 0), 1u);
  EXPECT_EQ(chain_loads(0, 0), 0u);
}

TEST_F(ProfileTest, LineCountsMatchBlockCounts) {
  const LaunchCounters counters = Run(4, 4, 7);
  EXPECT_EQ(counters.work.warp_instructions, counters.warp_instructions);
  EXPECT_EQ(counters.critical_warp_instructions, counters.warp_instructions);  // one warp per block
}

}  // namespace
}  // namespace cupel::emu
