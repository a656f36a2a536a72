// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <gtest/gtest.h>

namespace cupel::device {
namespace {

TEST(Device, FindsByNameOrListsKnownNames) {
  auto h200 = Find("h200");
  ASSERT_TRUE(h200.has_value());
  EXPECT_EQ(h200->full_name, "NVIDIA H200");
  EXPECT_EQ(h200->sm_count, 132);
  auto unknown = Find("h900");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(unknown.error().remedy, "known: h100, h200, b200, a100");
  EXPECT_EQ(All().front().name, "h100");
}

TEST(Device, DescriptionsAreComplete) {
  for (const Description& d : All()) {
    EXPECT_GT(d.sm_count, 0) << d.name;
    EXPECT_GT(d.clock_khz, 0) << d.name;
    EXPECT_GT(d.shared_per_block_optin, d.shared_per_block) << d.name;
    EXPECT_EQ(d.shared_per_sm, d.shared_per_block_optin + d.shared_reserved_per_block) << d.name;
    EXPECT_GT(d.global_memory_bytes, uint64_t{70} << 30) << d.name;
    EXPECT_GT(d.l2_bandwidth, d.dram_bytes) << d.name;
    // The achievable bandwidth is below the peak from clock and bus width.
    EXPECT_LT(d.dram_bytes, 2.0 * d.memory_clock_khz * 1e3 * d.memory_bus_bits / 8) << d.name;
    // Two operations per lane and clock; 64 (8.0) or 128 (9.0, 10.0) lanes per SM.
    const double lanes = d.major >= 9 ? 128 : 64;
    EXPECT_NEAR(d.fp32_flops, 2 * lanes * d.sm_count * d.clock_khz * 1e3, 0.01 * d.fp32_flops);
    EXPECT_GT(d.launch_latency_us, 0) << d.name;
  }
}

struct Fact {
  const char* device;
  int threads, registers;
  int64_t shared;
  int blocks;
};

// Results of cudaOccMaxActiveBlocksPerMultiprocessor in CUDA 13.0's cuda_occupancy.h (shared memory
// opted in) for randomly drawn configurations.
constexpr Fact kFacts[] = {
    {"h100", 16, 36, 55286, 4},
    {"h100", 160, 71, 32988, 5},
    {"h100", 359, 71, 10217, 2},
    {"h100", 160, 58, 178983, 1},
    {"h100", 397, 96, 43751, 1},
    {"h100", 384, 107, 25930, 1},
    {"h100", 52, 28, 0, 32},
    {"h100", 480, 53, 0, 2},
    {"h100", 217, 39, 1360, 6},
    {"h100", 480, 16, 103352, 2},
    {"h100", 455, 70, 37342, 1},
    {"h100", 128, 115, 0, 4},
    {"h100", 1, 99, 56065, 4},
    {"h100", 448, 22, 0, 4},
    {"h100", 54, 124, 30540, 7},
    {"h100", 256, 26, 30371, 7},
    {"h100", 102, 39, 26892, 8},
    {"h100", 64, 85, 45571, 4},
    {"h100", 332, 123, 0, 1},
    {"h100", 384, 67, 39316, 2},
    {"h100", 370, 91, 46153, 1},
    {"h100", 224, 109, 201343, 1},
    {"h100", 91, 99, 13378, 5},
    {"h100", 32, 51, 21722, 10},
    {"a100", 112, 110, 132950, 1},
    {"a100", 224, 50, 0, 5},
    {"a100", 214, 115, 46047, 2},
    {"a100", 608, 44, 33587, 2},
    {"a100", 272, 125, 41729, 1},
    {"a100", 448, 60, 37089, 2},
    {"a100", 324, 45, 0, 3},
    {"a100", 96, 22, 28860, 5},
    {"a100", 492, 28, 0, 4},
    {"a100", 128, 18, 0, 16},
    {"a100", 10, 44, 20195, 7},
    {"a100", 576, 78, 44894, 1},
    {"a100", 140, 43, 148652, 1},
    {"a100", 32, 31, 15706, 10},
    {"a100", 117, 23, 21084, 7},
    {"a100", 160, 109, 0, 3},
    {"a100", 57, 31, 37848, 4},
    {"a100", 320, 22, 5441, 6},
    {"a100", 155, 115, 209719, 0},
    {"a100", 96, 79, 42284, 3},
    {"a100", 522, 84, 0, 1},
    {"a100", 512, 61, 60576, 2},
    {"a100", 186, 34, 2086, 8},
    {"a100", 160, 61, 37427, 4},
    // The example of CUDA's documentation and corner cases.
    {"h100", 256, 120, 0, 2},
    {"h100", 1024, 64, 0, 1},
    {"h100", 1024, 65, 0, 0},
    {"h100", 32, 16, 0, 32},
    {"h100", 1024, 32, 0, 2},
    {"h100", 128, 32, 232448, 1},
    {"h100", 128, 32, 232449, 0},
    {"a100", 128, 32, 166912, 1},
    {"a100", 128, 32, 166913, 0},
};

TEST(Occupancy, MatchesCudasCalculator) {
  for (const Fact& fact : kFacts) {
    const Occupancy got =
        ComputeOccupancy(*Find(fact.device), fact.threads, fact.registers, fact.shared);
    EXPECT_EQ(got.blocks_per_sm, fact.blocks)
        << fact.device << " threads " << fact.threads << " registers " << fact.registers
        << " shared " << fact.shared;
  }
}

TEST(Occupancy, ReportsLimitAndFraction) {
  const Description h100 = *Find("h100");
  const Occupancy full = ComputeOccupancy(h100, 256, 32, 0);
  EXPECT_EQ(full.blocks_per_sm, 8);
  EXPECT_DOUBLE_EQ(full.fraction, 1.0);
  EXPECT_EQ(ComputeOccupancy(h100, 256, 120, 0).limited_by, "registers");
  EXPECT_DOUBLE_EQ(ComputeOccupancy(h100, 256, 120, 0).fraction, 0.25);
  EXPECT_EQ(ComputeOccupancy(h100, 64, 16, 100 << 10).limited_by, "shared memory");
  EXPECT_EQ(ComputeOccupancy(h100, 32, 16, 0).limited_by, "blocks");
  EXPECT_EQ(ComputeOccupancy(h100, 2048, 16, 0).blocks_per_sm, 0);
  EXPECT_EQ(ComputeOccupancy(h100, 0, 16, 0).blocks_per_sm, 0);
}

}  // namespace
}  // namespace cupel::device
