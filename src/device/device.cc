// Tested by device_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/round_up.h"

namespace cupel::device {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Achievable over data-sheet DRAM bandwidth, counting both directions of a copy: 4.28 of 4.8 TB/s
// measured on an H200. The H100 and A100 have the same kind of memory, so the same share is
// assumed.
constexpr double kAchievableDram = 4.28 / 4.8;

// Hopper's SXM parts differ only in memory. Limits: CUDA programming guide, compute capability 9.0;
// peaks: NVIDIA's H100 and H200 data sheets at 1980 MHz boost.
Description Hopper() {
  Description d;
  d.major = 9;
  d.minor = 0;
  d.sm_count = 132;
  d.clock_khz = 1'980'000;
  d.shared_per_block_optin = 227 << 10;
  d.shared_per_sm = 228 << 10;
  d.l2_bandwidth = 8.0e12;  // repeated reads of a 24 MB buffer, measured on an H200
  d.fp32_flops = 66.9e12;   // 132 SMs * 128 lanes * 2 * 1.98 GHz
  d.fp64_flops = 33.5e12;
  d.tensor_flops = 989e12;
  d.launch_latency_us = 0.5;  // an empty kernel in a chain of graph nodes, measured on an H200
  return d;
}

Description H100() {
  Description d = Hopper();
  d.name = "h100";
  d.full_name = "NVIDIA H100 80GB HBM3";
  d.memory_clock_khz = 2'619'000;
  d.memory_bus_bits = 5120;
  d.global_memory_bytes = 81'007 * kMiB;
  d.l2_bytes = 50 * kMiB;
  d.dram_bytes = 3.35e12 * kAchievableDram;
  return d;
}

Description H200() {
  Description d = Hopper();
  d.name = "h200";
  d.full_name = "NVIDIA H200";
  d.memory_clock_khz = 3'201'000;
  d.memory_bus_bits = 6016;
  d.global_memory_bytes = 150'109'880'320;
  d.l2_bytes = 60 * kMiB;
  d.dram_bytes = 4.8e12 * kAchievableDram;
  return d;
}

// Limits: CUDA programming guide, compute capability 10.0; peaks: NVIDIA's HGX B200 data sheet.
// Nothing is measured here: the bandwidth of the cache is the H200's by processors, and the latency
// is the H200's.
Description B200() {
  Description d = Hopper();
  d.name = "b200";
  d.full_name = "NVIDIA B200";
  d.major = 10;
  d.sm_count = 148;
  d.clock_khz = 1'965'000;
  d.memory_clock_khz = 3'996'000;
  d.memory_bus_bits = 8192;
  d.global_memory_bytes = 183'359 * kMiB;
  d.l2_bytes = 126 * kMiB;
  d.dram_bytes = 8.0e12 * kAchievableDram;
  d.l2_bandwidth = 9.0e12;
  d.fp32_flops = 74.4e12;  // 148 SMs * 128 lanes * 2 * 1.965 GHz
  d.fp64_flops = 37e12;
  d.tensor_flops = 2250e12;
  return d;
}

// Limits: programming guide, compute capability 8.0; peaks: A100 data sheet.
Description A100() {
  Description d;
  d.name = "a100";
  d.full_name = "NVIDIA A100-SXM4-80GB";
  d.major = 8;
  d.minor = 0;
  d.sm_count = 108;
  d.clock_khz = 1'410'000;
  d.memory_clock_khz = 1'593'000;
  d.memory_bus_bits = 5120;
  d.global_memory_bytes = 81'154 * kMiB;
  d.l2_bytes = 40 * kMiB;
  d.shared_per_block_optin = 163 << 10;
  d.shared_per_sm = 164 << 10;
  d.dram_bytes = 2.039e12 * kAchievableDram;
  d.l2_bandwidth = 4.0e12;  // published microbenchmarks; not measured here
  d.fp32_flops = 19.5e12;
  d.fp64_flops = 9.7e12;
  d.tensor_flops = 312e12;
  d.launch_latency_us = 0.8;  // estimated from the H200
  return d;
}

constexpr int kWarpSize = 32;
// Each SM has four partitions; registers and warps are allocated per partition.
constexpr int kPartitions = 4;

int BlocksByRegisters(const Description& d, int warps, int registers_per_thread) {
  if (registers_per_thread > d.max_registers_per_thread) return 0;
  if (registers_per_thread <= 0) return d.max_blocks_per_sm;
  const int64_t per_warp =
      RoundUp<int64_t>(int64_t{registers_per_thread} * kWarpSize, d.register_allocation_unit);
  // The launch check assumes that the block's warps are spread evenly over the partitions.
  if (per_warp * RoundUp<int64_t>(warps, kPartitions) > d.registers_per_block) return 0;
  const int64_t warps_per_partition = d.registers_per_sm / kPartitions / per_warp;
  return static_cast<int>(warps_per_partition * kPartitions / warps);
}

int BlocksByShared(const Description& d, int64_t shared_bytes) {
  if (shared_bytes < 0 || shared_bytes > d.shared_per_block_optin) return 0;
  const int64_t per_block =
      RoundUp<int64_t>(shared_bytes + d.shared_reserved_per_block, d.shared_allocation_unit);
  return static_cast<int>(d.shared_per_sm / per_block);
}

}  // namespace

const std::vector<Description>& All() {
  static const std::vector<Description> all = {H100(), H200(), B200(), A100()};
  return all;
}

Result<Description> Find(std::string_view name) {
  std::string known;
  for (const Description& d : All()) {
    if (d.name == name) return d;
    known += (known.empty() ? "" : ", ") + d.name;
  }
  return Fail(ErrorCode::kNotFound, fmt::format("unknown GPU \"{}\"", name), "known: " + known);
}

Occupancy ComputeOccupancy(const Description& device, int threads, int registers_per_thread,
                           int64_t shared_bytes) {
  Occupancy result;
  if (threads <= 0 || threads > device.max_threads_per_block) {
    result.limited_by = "threads";
    return result;
  }
  const int warps = (threads + kWarpSize - 1) / kWarpSize;
  const int max_warps = device.max_threads_per_sm / kWarpSize;
  struct Limit {
    int blocks;
    const char* name;
  };
  const Limit limits[] = {
      {BlocksByRegisters(device, warps, registers_per_thread), "registers"},
      {BlocksByShared(device, shared_bytes), "shared memory"},
      {max_warps / warps, "threads"},
      {device.max_blocks_per_sm, "blocks"},
  };
  const Limit* least =
      std::min_element(std::begin(limits), std::end(limits),
                       [](const Limit& a, const Limit& b) { return a.blocks < b.blocks; });
  result.blocks_per_sm = least->blocks;
  result.limited_by = least->name;
  result.fraction = static_cast<double>(result.blocks_per_sm * warps) / max_warps;
  return result;
}

}  // namespace cupel::device
