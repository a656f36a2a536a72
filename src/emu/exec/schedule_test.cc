// All schedules are fair and complete: every block runs once, and kernels that wait finish.
// SPDX-License-Identifier: Apache-2.0
#include "emu/exec/schedule.h"

#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

TEST(ScheduleTest, EveryBlockRunsOnce) {
  for (const uint64_t blocks : {1u, 2u, 31u, 32u, 33u, 1000u}) {
    for (uint64_t schedule = 0; schedule < 4; ++schedule) {
      std::vector<int> seen(blocks);
      uint64_t moved = 0;
      for (uint64_t turn = 0; turn < blocks; ++turn) {
        const uint64_t block = BlockInTurn(turn, blocks, schedule, schedule > 2);
        ASSERT_LT(block, blocks);
        ++seen[block];
        moved += block != turn;
      }
      EXPECT_EQ(seen, std::vector<int>(blocks, 1));
      if (blocks > 2) {
        EXPECT_EQ(moved > blocks / 2, schedule != 0) << blocks << " " << schedule;
      }
    }
  }
}

TEST(ScheduleTest, WaitingKernelsFinish) {
  for (uint64_t schedule = 0; schedule < 4; ++schedule) {
    Interpreter emu(TestKernels());
    emu.options.schedule = schedule;
    const uint64_t lock = emu.Buffer(std::vector<int>(1));
    const uint64_t counter = emu.Buffer(std::vector<int>(1));
    const auto spun = emu.Launch("spin_lock", {3}, {96}, lock, counter);
    ASSERT_TRUE(spun.completed) << Summary(spun);
    EXPECT_EQ(emu.Read<int>(counter, 1)[0], 3 * 96);
    const uint64_t flags = emu.Buffer(std::vector<int>(70));
    const uint64_t y = emu.Buffer(std::vector<int>(70 * 64));
    const auto waited = emu.Launch("wait_for_next", {70}, {64}, flags, y);
    ASSERT_TRUE(waited.completed) << Summary(waited);
    EXPECT_EQ(emu.Read<int>(y, 70 * 64)[69 * 64 + 63], 69);
    emu.cooperative = true;
    const uint64_t x = emu.Buffer(std::vector<int>(9)), sums = emu.Buffer(std::vector<int>(9 * 64));
    const auto synchronised = emu.Launch("grid_sums", {9}, {64}, x, sums);
    ASSERT_TRUE(synchronised.completed) << Summary(synchronised);
    EXPECT_EQ(emu.Read<int>(sums, 9 * 64), std::vector<int>(9 * 64, 45));
  }
}

TEST(ScheduleTest, OtherSchedulesExposeOrderDependence) {
  // Every block takes a ticket and keeps it.
  const std::string text = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 ticket, .param .u64 out) {
  .reg .b64 %rd<5>;
  .reg .b32 %r<5>;
  ld.param.u64 %rd1, [ticket];
  ld.param.u64 %rd2, [out];
  atom.global.add.u32 %r1, [%rd1], 1;
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %rd3, %r2, 4;
  add.u64 %rd2, %rd2, %rd3;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";
  std::vector<std::vector<int>> orders;
  for (const uint64_t schedule : {0u, 1u, 2u, 1u}) {
    Interpreter emu(text);
    emu.options.schedule = schedule;
    const uint64_t ticket = emu.Buffer(std::vector<int>(1)), out = emu.Buffer(std::vector<int>(50));
    const auto outcome = emu.Launch("k", {50}, {1}, ticket, out);
    ASSERT_TRUE(outcome.completed) << Summary(outcome);
    orders.push_back(emu.Read<int>(out, 50));
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
  EXPECT_EQ(orders[1], orders[3]);  // a schedule is deterministic
}

TEST(ScheduleTest, TurnsDoNotDependOnEarlierBlocks) {
  // Each warp works for less than a turn, then takes a ticket of its block. The tickets are in
  // order in every block, however much of the launch's budget earlier blocks have used.
  const std::string text = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 ticket, .param .u64 out) {
  .reg .pred %p<2>;
  .reg .b64 %rd<6>;
  .reg .b32 %r<9>;
  ld.param.u64 %rd1, [ticket];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, 0;
LOOP:
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p1, %r1, 9000;
  @%p1 bra LOOP;
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %rd3, %r2, 4;
  add.u64 %rd1, %rd1, %rd3;
  atom.global.add.u32 %r3, [%rd1], 1;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, 128, %r4;
  mul.wide.u32 %rd4, %r5, 4;
  add.u64 %rd2, %rd2, %rd4;
  st.global.u32 [%rd2], %r3;
  ret;
}
)";
  constexpr size_t kBlocks = 120, kThreads = 128;
  Interpreter emu(text);
  emu.threads = 1;
  const uint64_t ticket = emu.Buffer(std::vector<int>(kBlocks)),
                 out = emu.Buffer(std::vector<int>(kBlocks * kThreads));
  const auto outcome = emu.Launch("k", {kBlocks}, {kThreads}, ticket, out);
  ASSERT_TRUE(outcome.completed) << Summary(outcome);
  EXPECT_GT(outcome.counters.warp_instructions, 10'000'000u);  // several shares of the budget
  const auto tickets = emu.Read<int>(out, kBlocks * kThreads);
  for (size_t i = 0; i < tickets.size(); ++i) {
    ASSERT_EQ(tickets[i], static_cast<int>(i % kThreads)) << i / kThreads;
  }
}

}  // namespace
}  // namespace cupel::emu
