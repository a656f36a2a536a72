// Tested by cost_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/cost.h"

#include <algorithm>
#include <cmath>

namespace cupel::emu {
namespace {

constexpr double kWarpSize = 32;
constexpr double kSectorBytes = 32;

// An SM has four partitions, each of which issues one warp instruction a clock (Volta and later;
// CUDA programming guide, "Hardware Implementation").
constexpr double kSchedulersPerSm = 4;

// Measured on an H200 at 1980 MHz (CUDA 13.0) unless said otherwise.
// Clocks between dependent ALU instructions of one warp.
constexpr double kAluLatency = 4.2;
// Independent instructions that a compiler finds to put between them. Between 1 (a serial sum) and
// 4 (a register tile); chosen on the kernels of bench/.
constexpr double kInstructionParallelism = 2;
// Clocks of a load from DRAM (pointer chase), and of one of bytes that the launch has read before:
// a mix of L1 (about 40) and L2 (about 270).
constexpr double kLoadLatency = 620;
constexpr double kRereadLatency = 200;
// Loads that a warp keeps in flight. Between 1 (a rolled loop) and 16; chosen on the kernels of
// bench/.
constexpr double kLoadParallelism = 3;
// Useful bytes of one warp-wide load instruction, when nothing better is known: 32 lanes of 4
// bytes.
constexpr double kBytesPerWarpLoad = 128;
// Clocks of a dependent shared-memory load, and such loads in flight.
constexpr double kSharedLatency = 29;
constexpr double kSharedParallelism = 8;
// Clocks of a barrier that nobody is late for: 14 with one warp, 76 with 32.
constexpr double kBarrierLatency = 12;
constexpr double kBarrierLatencyPerWarp = 2;
// Blocks that the device starts a clock (empty blocks of 256 threads: 1.18 clocks each).
constexpr double kBlocksPerClock = 0.85;
// Bytes a clock from L2 to one SM that has the L2 to itself.
constexpr double kL2BytesPerSmClock = 48;
// Bytes a clock that an SM's L1 delivers (NVIDIA's tuning guides since Volta), and the share of
// bytes read again that it holds. The share is a guess: counts do not show where reuse lies.
constexpr double kL1BytesPerClock = 128;
constexpr double kL1HitShare = 0.7;
// Atomics of single lanes that the device retires a clock: at addresses that differ, and at one.
constexpr double kSpreadAtomicsPerClock = 250;
constexpr double kSameAddressAtomicsPerClock = 0.29;
// Of the FP32 peak, what cuBLAS reaches on middling shapes.
constexpr double kLibraryShare = 0.6;

struct Shape {
  double blocks = 0;
  double warps_per_block = 0;
  double busy_sms = 0;           // SMs that get at least one block
  double blocks_of_busiest = 0;  // on the SM that gets the most
  double waves = 0;              // turns of that SM when it holds as many blocks as fit
  double clock_mhz = 0;          // clocks a microsecond
};

Shape ShapeOf(const CostInput& input, const device::Description& device) {
  Shape s;
  s.blocks = static_cast<double>(input.counters.grid.Count());
  s.warps_per_block = std::ceil(static_cast<double>(input.counters.block.Count()) / kWarpSize);
  const double sms = std::max(device.sm_count, 1);
  s.busy_sms = std::min(s.blocks, sms);
  s.blocks_of_busiest = std::ceil(s.blocks / sms);
  s.waves = std::ceil(s.blocks_of_busiest / std::max(input.occupancy.blocks_per_sm, 1));
  s.clock_mhz = device.clock_khz / 1e3;
  return s;
}

// Share of the whole launch's work that the busiest SM does: work is counted per launch and blocks
// are taken to be alike.
double BusiestShare(const Shape& s) { return s.blocks_of_busiest / s.blocks; }

double IssueUs(const engine::LaunchCounters& c, const Shape& s) {
  const double resident_warps = s.blocks_of_busiest * s.warps_per_block;
  const double schedulers = std::min(kSchedulersPerSm, resident_warps);
  return static_cast<double>(c.warp_instructions) * BusiestShare(s) / schedulers / s.clock_mhz;
}

// Bytes of sectors loaded and stored, and how many of them are touched for the first time.
struct Traffic {
  double all = 0;
  double first = 0;
};

Traffic TrafficOf(const CostInput& input) {
  const double loads = static_cast<double>(input.counters.global_load_sectors) * kSectorBytes;
  const double stores = static_cast<double>(input.counters.global_store_sectors) * kSectorBytes;
  auto once = [&](double bytes) {
    const auto footprint = static_cast<double>(input.footprint_bytes);
    return input.footprint_bytes == 0 ? bytes : std::min(bytes, footprint);
  };
  Traffic traffic;
  traffic.all = loads + stores;
  traffic.first = once(loads) + once(stores);
  return traffic;
}

// One warp alone: its instructions one after another, its loads and barriers waited for. All warps
// of a wave wait at the same time, waves follow each other.
double LatencyUs(const CostInput& input, const Shape& s) {
  const engine::LaunchCounters& c = input.counters;
  const double warps = s.blocks * s.warps_per_block;
  const auto loaded = static_cast<double>(c.global_load_bytes);
  const double fresh = input.footprint_bytes == 0
                           ? loaded
                           : std::min(loaded, static_cast<double>(input.footprint_bytes));
  const double load_clocks =
      (fresh * kLoadLatency + (loaded - fresh) * kRereadLatency) / kBytesPerWarpLoad;
  const double clocks =
      static_cast<double>(c.warp_instructions) / warps * kAluLatency / kInstructionParallelism +
      load_clocks / warps / kLoadParallelism +
      static_cast<double>(c.shared_wavefronts) / warps * kSharedLatency / kSharedParallelism +
      static_cast<double>(c.barriers) / warps *
          (kBarrierLatency + kBarrierLatencyPerWarp * s.warps_per_block);
  const double first_load = c.global_load_bytes > 0 ? kLoadLatency : 0;
  return s.waves * (clocks + first_load) / s.clock_mhz;
}

double Fp32Us(const engine::LaunchCounters& c, const Shape& s, const device::Description& d) {
  const double per_sm = d.fp32_flops / std::max(d.sm_count, 1);
  return static_cast<double>(c.floating_point_operations) * BusiestShare(s) / per_sm * 1e6;
}

double SharedUs(const engine::LaunchCounters& c, const Shape& s) {
  return static_cast<double>(c.shared_wavefronts) * BusiestShare(s) / s.clock_mhz;
}

// What is read again comes from L2 as far as that holds the footprint.
double DramUs(const CostInput& input, const Traffic& traffic, const device::Description& d) {
  // Tiling keeps most reuse close together even when the footprint exceeds the L2. A guess.
  constexpr double kFarReuse = 0.1;
  const auto footprint = static_cast<double>(input.footprint_bytes);
  const double missing =
      footprint > 0 ? std::max(0.0, 1 - static_cast<double>(d.l2_bytes) / footprint) : 0;
  const double bytes = traffic.first + (traffic.all - traffic.first) * missing * kFarReuse;
  return bytes / d.dram_bytes * 1e6;
}

double L2Us(const Traffic& traffic, const Shape& s, const device::Description& d) {
  const double bytes = traffic.first + (traffic.all - traffic.first) * (1 - kL1HitShare);
  const double whole = bytes / d.l2_bandwidth * 1e6;
  const double busiest = bytes * BusiestShare(s) / (kL2BytesPerSmClock * s.clock_mhz);
  return std::max(whole, busiest);
}

double L1Us(const Traffic& traffic, const Shape& s) {
  return traffic.all * BusiestShare(s) / (kL1BytesPerClock * s.clock_mhz);
}

// Counts do not tell contended addresses from others: up to one atomic a block is taken for a
// reduction into one address, what goes beyond that for a scatter.
double AtomicsUs(const engine::LaunchCounters& c, const Shape& s) {
  const auto all = static_cast<double>(c.global_atomics);
  const double contended = std::min(all, s.blocks);
  const double clocks =
      contended / kSameAddressAtomicsPerClock + (all - contended) / kSpreadAtomicsPerClock;
  return clocks / s.clock_mhz;
}

}  // namespace

double CostBreakdown::Total() const {
  double sum = 0;
  for (double us :
       {blocks_us, issue_us, latency_us, fp32_us, shared_us, dram_us, l2_us, l1_us, atomics_us}) {
    sum += us * us * us * us;
  }
  return std::sqrt(std::sqrt(sum)) + launch_us;
}

CostBreakdown EstimateLaunch(const CostInput& input, const device::Description& device) {
  CostBreakdown cost;
  cost.launch_us = device.launch_latency_us;
  if (input.counters.grid.Count() == 0 || input.counters.block.Count() == 0) return cost;
  const Shape shape = ShapeOf(input, device);
  const Traffic traffic = TrafficOf(input);
  const engine::LaunchCounters& c = input.counters;
  cost.blocks_us = shape.blocks / kBlocksPerClock / shape.clock_mhz;
  cost.issue_us = IssueUs(c, shape);
  cost.latency_us = LatencyUs(input, shape);
  cost.fp32_us = Fp32Us(c, shape, device);
  cost.shared_us = SharedUs(c, shape);
  cost.dram_us = DramUs(input, traffic, device);
  cost.l2_us = L2Us(traffic, shape, device);
  cost.l1_us = L1Us(traffic, shape);
  cost.atomics_us = AtomicsUs(c, shape);
  return cost;
}

double EstimateCopyUs(uint64_t bytes, const device::Description& device) {
  return device.launch_latency_us + 2 * static_cast<double>(bytes) / device.dram_bytes * 1e6;
}

double EstimateGemmUs(double flops, const device::Description& device) {
  return device.launch_latency_us + flops / (device.fp32_flops * kLibraryShare) * 1e6;
}

}  // namespace cupel::emu
