// SPDX-License-Identifier: Apache-2.0
#include "emu/cost/cost.h"

#include <gtest/gtest.h>

namespace cupel::emu {
namespace {

// An elementwise kernel over n floats: one load and one store of 4 bytes per element.
CostInput Elementwise(uint64_t n, uint32_t threads, const device::Description& device) {
  CostInput input;
  records::LaunchCounters& c = input.counters;
  c.block = {threads, 1, 1};
  c.grid = {static_cast<uint32_t>((n + threads - 1) / threads), 1, 1};
  c.warp_instructions = n / 32 * 15;
  c.lane_instructions = n * 15;
  c.global_load_bytes = c.global_store_bytes = n * 4;
  c.global_load_sectors = c.global_store_sectors = c.work.missed_sectors = n / 8;
  c.work.load_requests = c.work.store_requests = n / 32;
  c.work.load_lines = c.work.store_lines = n / 32;
  c.chain_loads = c.chain_misses = n / 32;
  c.chain_clocks = n / 32 * 40;
  c.floating_point_operations = n;
  input.footprint_bytes = n * 8;
  input.occupancy = device::ComputeOccupancy(device, static_cast<int>(threads), 32, 0);
  return input;
}

class Cost : public ::testing::Test {
 protected:
  double Us(const CostInput& input) { return EstimateLaunch(input, device_).Total(); }
  device::Description device_ = *device::Find("h200");
};

TEST_F(Cost, StreamingIsBoundByDram) {
  const CostInput input = Elementwise(256 << 20, 1024, device_);
  const CostBreakdown cost = EstimateLaunch(input, device_);
  EXPECT_EQ(cost.Bounds()[0].first, "dram");
  EXPECT_GE(cost.Total(), cost.dram_us + cost.launch_us);
  EXPECT_LT(cost.Total(), 1.3 * cost.dram_us);
  EXPECT_NEAR(cost.dram_us, (256 << 20) * 8.0 / device_.dram_bytes * 1e6, 1);
}

TEST_F(Cost, DataThatManyBlocksReadCrossesDramOnce) {
  CostInput input = Elementwise(1 << 20, 1024, device_);
  const double streaming = EstimateLaunch(input, device_).dram_us;
  input.counters.work.missed_sectors *= 2;  // half of them could be a row of weights
  input.filled_bytes = input.footprint_bytes / 2;
  EXPECT_NEAR(EstimateLaunch(input, device_).dram_us, streaming, 1e-3 * streaming);
}

TEST_F(Cost, LibraryProductsAreBoundByUnitsOrBytes) {
  const double deep = EstimateGemmUs(1e12, device_.tensor_flops, 1e6, device_);
  EXPECT_LT(deep, EstimateGemmUs(1e12, device_.fp32_flops, 1e6, device_) / 5);
  const double thin = EstimateGemmUs(1e9, device_.tensor_flops, 4e9, device_);
  EXPECT_GT(thin, 4e9 / device_.dram_bytes * 1e6 + device_.launch_latency_us);
  EXPECT_LT(thin, 2 * 4e9 / device_.dram_bytes * 1e6);
}

TEST_F(Cost, TinyLaunchesCostLatency) {
  const CostInput input = Elementwise(1024, 256, device_);
  const CostBreakdown cost = EstimateLaunch(input, device_);
  EXPECT_GT(cost.latency_us, cost.dram_us);
  EXPECT_GT(cost.latency_us, cost.issue_us);
  EXPECT_GT(cost.Total(), device_.launch_latency_us);
  EXPECT_LT(cost.Total(), 5);
}

TEST_F(Cost, NoCountReducesTheEstimate) {
  const CostInput base = Elementwise(1 << 20, 256, device_);
  uint64_t records::LaunchCounters::* counts[] = {
      &records::LaunchCounters::warp_instructions,
      &records::LaunchCounters::global_load_sectors,
      &records::LaunchCounters::global_store_sectors,
      &records::LaunchCounters::chain_clocks,
      &records::LaunchCounters::chain_loads,
      &records::LaunchCounters::chain_shared_loads,
      &records::LaunchCounters::retry_clocks,
      &records::LaunchCounters::shared_wavefronts,
      &records::LaunchCounters::hottest_atomics,
      &records::LaunchCounters::barriers,
      &records::LaunchCounters::floating_point_operations};
  for (auto count : counts) {
    double last = Us(base);
    CostInput more = base;
    for (uint64_t add = 1; add < uint64_t{1} << 36; add *= 16) {
      more.counters.*count += add;
      EXPECT_GE(Us(more), last);
      last = Us(more);
    }
    EXPECT_GT(last, Us(base));
  }
}

TEST_F(Cost, FewBlocksUseFewSms) {
  // The same work in one block and in 132.
  CostInput one = Elementwise(132 * 1024, 1024, device_);
  one.counters.grid = {1, 1, 1};
  CostInput many = one;
  many.counters.grid = {132, 1, 1};
  EXPECT_GT(Us(one), 5 * Us(many));
}

TEST_F(Cost, TailWaveCostsAWholeWave) {
  // Issue-bound blocks: 133 take as long on the busiest SM as 264.
  CostInput input = Elementwise(132 * 1024, 1024, device_);
  input.counters.warp_instructions = 132'000'000;
  input.counters.grid = {132, 1, 1};
  const double full = Us(input);
  input.counters.warp_instructions = 133'000'000;
  input.counters.grid = {133, 1, 1};
  EXPECT_NEAR(Us(input), 2 * full, 0.05 * full);
}

TEST_F(Cost, WaitingAndLoadingAddUpInOneWave) {
  CostInput input = Elementwise(132 * 1024, 1024, device_);
  input.counters.global_store_sectors = 0;
  CostBreakdown cost = EstimateLaunch(input, device_);
  EXPECT_EQ(cost.in_step, 1);
  EXPECT_GT(cost.Total(), cost.launch_us + cost.latency_us + cost.dram_us);
  input.counters.global_store_sectors = input.counters.global_load_sectors;
  EXPECT_EQ(EstimateLaunch(input, device_).in_step, 0.5) << "stores do not wait";
  EXPECT_LT(EstimateLaunch(Elementwise(1 << 22, 256, device_), device_).in_step, 0.2) << "waves";
}

TEST_F(Cost, StoresOfPartsOfSectorsFillEmptyBuffersOnce) {
  CostInput input = Elementwise(1 << 22, 256, device_);
  const double whole = EstimateLaunch(input, device_).dram_us;
  input.filled_bytes = input.footprint_bytes / 2;
  input.counters.global_store_sectors *= 4;
  EXPECT_NEAR(EstimateLaunch(input, device_).dram_us, whole, 0.5);
}

TEST_F(Cost, BankConflictsAndUncoalescedAccessCost) {
  CostInput base = Elementwise(1 << 22, 256, device_);
  CostInput conflicts = base;
  conflicts.counters.shared_wavefronts = 32u << 20;
  EXPECT_GT(Us(conflicts), 1.5 * Us(base));
  CostInput strided = base;
  strided.counters.global_load_sectors *= 8;
  strided.counters.work.load_lines *= 32;
  EXPECT_GT(Us(strided), 1.2 * Us(base));
  CostInput scattered = base;
  scattered.counters.global_store_sectors *= 8;
  scattered.counters.work.store_lines *= 32;
  EXPECT_GT(Us(scattered), 3 * Us(base));
}

TEST_F(Cost, RereadingFromL2IsCheaperThanDram) {
  CostInput input = Elementwise(1 << 22, 256, device_);
  input.counters.global_load_sectors *= 20;
  input.counters.work.missed_sectors *= 20;
  const CostBreakdown cost = EstimateLaunch(input, device_);
  EXPECT_NEAR(cost.dram_us, ((1 << 22) * 4.0 + (1 << 22) * 8.0) / device_.dram_bytes * 1e6, 0.1);
  EXPECT_GT(cost.l2_us, cost.dram_us);
}

TEST_F(Cost, L1HitsCostTheL2Nothing) {
  const CostInput base = Elementwise(1 << 22, 256, device_);
  CostInput near = base;
  near.counters.global_load_sectors *= 4;  // three of four hit the L1
  near.counters.chain_loads *= 4;
  EXPECT_EQ(EstimateLaunch(near, device_).l2_us, EstimateLaunch(base, device_).l2_us);
  EXPECT_EQ(EstimateLaunch(near, device_).dram_us, EstimateLaunch(base, device_).dram_us);
  CostInput far = near;
  far.counters.chain_misses *= 4;
  EXPECT_GT(EstimateLaunch(far, device_).latency_us, 2 * EstimateLaunch(near, device_).latency_us);
}

TEST_F(Cost, WaitingAndWorkingAddUpWithBarriers) {
  // One block per SM: the SM is idle while the block waits.
  CostInput input = Elementwise(132 * 1024, 1024, device_);
  input.counters.shared_wavefronts = 132 * 100'000;
  const double alone = EstimateLaunch(input, device_).latency_us;
  input.counters.barriers = 132;
  const CostBreakdown cost = EstimateLaunch(input, device_);
  EXPECT_GT(cost.latency_us, cost.shared_us);
  EXPECT_GT(cost.latency_us, 10 * alone);
}

TEST_F(Cost, AtomicsAtOneLineAreContended) {
  CostInput input = Elementwise(1 << 20, 256, device_);
  input.counters.global_atomics = input.counters.hottest_atomics = input.counters.grid.Count();
  input.counters.work.atomic_sectors = input.counters.global_atomics;
  const double contended = EstimateLaunch(input, device_).atomics_us;
  EXPECT_NEAR(contended, 4096 / 0.29 / 1980, 0.1);
  input.counters.work.atomic_sectors *= 2;
  EXPECT_LT(EstimateLaunch(input, device_).atomics_us, 1.01 * contended);
}

TEST_F(Cost, BusiestSmDeterminesCostOfUnevenBlocks) {
  EXPECT_EQ(Imbalance(std::vector<uint32_t>(1000, 7), 1000, device_), 1);
  // 132 blocks, one of which does half of all the work.
  std::vector<uint32_t> work(132, 1);
  work[5] = 131;
  EXPECT_NEAR(Imbalance(work, 132, device_), 66, 0.1);
  // Many small uneven blocks balance over the SMs.
  std::vector<uint32_t> mixed;
  for (uint32_t i = 0; i < 13200; ++i) mixed.push_back(i % 2 == 0 ? 1 : 3);
  EXPECT_LT(Imbalance(mixed, mixed.size(), device_), 1.1);
  // The work is a sample of the grid.
  EXPECT_GT(Imbalance(work, 1320, device_), 1);
  CostInput input = Elementwise(1 << 22, 256, device_);
  const double even = Us(input);
  input.counters.imbalance = 2;
  EXPECT_GT(Us(input), 1.1 * even);
}

TEST_F(Cost, OtherUnitsThanFp32CanBeTheBound) {
  CostInput input = Elementwise(1 << 20, 256, device_);
  const auto set = [&](records::InstructionClass which, uint64_t count) {
    input.counters.mix[static_cast<size_t>(which)] = count;
  };
  const double base = Us(input);
  set(records::InstructionClass::kSpecial, 1 << 20);
  EXPECT_NEAR(EstimateLaunch(input, device_).special_us, (1 << 20) * 2.0 / 132 / 1980, 0.3);
  EXPECT_GT(Us(input), base);
  set(records::InstructionClass::kFp64, 8 << 20);
  EXPECT_EQ(EstimateLaunch(input, device_).Bounds()[0].first, "fp64");
  input.counters.tensor_operations = 1'000'000'000'000;
  EXPECT_NEAR(EstimateLaunch(input, device_).tensor_us, 1e12 / 989e12 * 1e6, 40);
  EXPECT_EQ(EstimateLaunch(input, device_).Bounds()[0].first, "tensor");
}

TEST_F(Cost, OneBusyWarpCostsLatency) {
  CostInput input = Elementwise(132 * 1024, 1024, device_);
  const double even = EstimateLaunch(input, device_).latency_us;
  input.counters.critical_warp_instructions = input.counters.warp_instructions;
  EXPECT_GT(EstimateLaunch(input, device_).latency_us, 8 * even);
}

TEST_F(Cost, DegenerateInputsAreFinite) {
  CostInput input;
  input.counters.grid = {0, 1, 1};
  EXPECT_DOUBLE_EQ(Us(input), device_.launch_latency_us);
  input.counters.grid = {1, 1, 1};
  input.counters.block = {1, 1, 1};
  EXPECT_LT(Us(input), 1.5);
}

}  // namespace
}  // namespace cupel::emu
