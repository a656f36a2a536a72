// Tested by cost_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>

#include "emu/core/near_cache.h"

namespace cupel::emu {
namespace {

constexpr double kWarpSize = 32;

// An SM has four partitions, each of which issues one warp instruction per clock (Volta and
// later; CUDA programming guide, "Hardware Implementation").
constexpr double kSchedulersPerSm = 4;

// Unless stated otherwise, constants were measured on an H200 at 1980 MHz (CUDA 13.0), most of them
// by bench/calibrate.
// Clocks of a load from DRAM, from the L2, from the L1, and from shared memory (pointer chases).
constexpr double kDramLatency = 629;
constexpr double kL2Latency = 285;
constexpr double kL1Latency = 46;
constexpr double kSharedLatency = 34;
// Clocks that a kernel waits for its code and its parameters, which come from DRAM too: a load from
// DRAM for each of them. (An empty kernel, with which launches were measured, hardly has any.)
constexpr double kCodeLatency = 2 * kDramLatency;
// Clocks of a barrier at which all warps arrive at once: 14 with one warp, 76 with 32.
constexpr double kBarrierLatency = 12;
constexpr double kBarrierLatencyPerWarp = 2;
// Blocks that the device starts per clock (empty blocks of 256 threads: 1.18 clocks each).
constexpr double kBlocksPerClock = 0.85;
// Bytes per clock from the L2 to an SM when no other SM uses the L2.
constexpr double kL2BytesPerSmClock = 48;
// Lines of 128 bytes that an SM's L1 looks up per clock.
constexpr double kL1LinesPerClock = 1;
// Sectors, full or partial, that the L2 accepts from stores per clock: for requests that fill whole
// lines, and for requests in which each sector is in another line.
constexpr double kStoreSectorsPerClock = 52;
constexpr double kScatteredStoreSectorsPerClock = 30;
// Atomics that the L2 executes per clock: sectors, and turns at one line.
constexpr double kAtomicSectorsPerClock = 40;
constexpr double kAtomicTurnsPerClock = 0.29;
// Results per clock and SM of integer arithmetic, special-function units and conversions (CUDA
// programming guide, "Arithmetic Instructions", compute capabilities 8.0 and 9.0).
constexpr double kIntegersPerClock = 64;
constexpr double kSpecialPerClock = 16;
constexpr double kConversionsPerClock = 64;
// The share of the peak, of arithmetic or of memory, that cuBLAS reaches on medium-sized shapes.
constexpr double kLibraryShare = 0.6;

struct Shape {
  double blocks = 0;
  double warps_per_block = 0;
  double busy_sms = 0;           // SMs that get at least one block
  double blocks_of_busiest = 0;  // blocks on the SM that gets the most
  double waves = 0;              // waves on that SM, each with as many blocks as fit
  double clock_mhz = 0;          // clocks per microsecond
  double imbalance = 1;          // of work between the SMs
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
  s.imbalance = std::max(1.0, input.counters.imbalance);
  return s;
}

// Share of the whole launch's work that the busiest SM does.
double BusiestShare(const Shape& s) { return s.imbalance * s.blocks_of_busiest / s.blocks; }

double MixOf(const records::LaunchCounters& c, records::InstructionClass which) {
  return static_cast<double>(c.mix[static_cast<size_t>(which)]);
}

double IssueUs(const records::LaunchCounters& c, const Shape& s) {
  const double resident_warps = s.blocks_of_busiest * s.warps_per_block;
  const double schedulers = std::min(kSchedulersPerSm, resident_warps);
  const auto issued =
      static_cast<double>(c.warp_instructions) - static_cast<double>(c.free_instructions);
  return std::max(0.0, issued) * BusiestShare(s) / schedulers / s.clock_mhz;
}

// Bytes of the sectors that the SMs load from and store to the L2, and how many of these bytes are
// accessed for the first time.
struct Traffic {
  double loads = 0, stores = 0;
  double first_loads = 0, first_stores = 0;
  double all() const { return loads + stores; }
  double first() const { return first_loads + first_stores; }
};

Traffic TrafficOf(const CostInput& input) {
  auto once = [](double bytes, uint64_t most) {
    return most == 0 ? bytes : std::min(bytes, static_cast<double>(most));
  };
  Traffic traffic;
  traffic.loads = static_cast<double>(input.counters.work.missed_sectors) * kSectorBytes;
  traffic.stores = static_cast<double>(input.counters.global_store_sectors) * kSectorBytes;
  traffic.first_loads =
      once(traffic.loads, input.filled_bytes > 0 ? input.filled_bytes : input.footprint_bytes);
  // Results mostly go to buffers without data. Each of their sectors may be stored in parts.
  const uint64_t empty =
      input.filled_bytes > 0 && input.footprint_bytes > input.filled_bytes
          ? std::max(input.footprint_bytes - input.filled_bytes, input.counters.global_store_bytes)
          : 0;
  traffic.first_stores = once(once(traffic.stores, empty), input.footprint_bytes);
  return traffic;
}

// Instructions of the busiest warp of a block, on average over blocks.
double CriticalInstructions(const records::LaunchCounters& c, const Shape& s) {
  const double mean = static_cast<double>(c.warp_instructions) / (s.blocks * s.warps_per_block);
  return std::max(mean, static_cast<double>(c.critical_warp_instructions) / s.blocks);
}

// The latency of a load that misses the L1. The first wave of blocks that loads some data waits for
// DRAM; later waves find the data in the L2.
double MissLatency(const Traffic& traffic, const Shape& s) {
  const double first = traffic.loads > 0 ? traffic.first_loads / traffic.loads : 1;
  const double far = std::max(first, 1 / std::max(s.waves, 1.0));
  return far * kDramLatency + (1 - far) * kL2Latency;
}

// The time of one warp alone: the chains of its basic blocks one after another, plus barriers. The
// warps of a wave wait at the same time; waves run one after another.
double LatencyUs(const CostInput& input, const Traffic& traffic, const Shape& s) {
  const records::LaunchCounters& c = input.counters;
  const double warps = s.blocks * s.warps_per_block;
  const double instructions = static_cast<double>(c.warp_instructions) / warps;
  // The busiest warp does more of everything.
  const double skew = instructions > 0 ? CriticalInstructions(c, s) / instructions : 1;
  const double chain = static_cast<double>(c.chain_clocks) +
                       static_cast<double>(c.chain_misses) * MissLatency(traffic, s) +
                       static_cast<double>(c.chain_loads - c.chain_misses) * kL1Latency +
                       static_cast<double>(c.chain_shared_loads) * kSharedLatency +
                       static_cast<double>(c.retry_clocks);
  const double clocks =
      skew * chain / warps + static_cast<double>(c.barriers) / warps *
                                 (kBarrierLatency + kBarrierLatencyPerWarp * s.warps_per_block);
  return s.imbalance * s.waves * clocks / s.clock_mhz;
}

double Fp32Us(const records::LaunchCounters& c, const Shape& s, const device::Description& d) {
  const double per_sm = d.fp32_flops / std::max(d.sm_count, 1);
  return static_cast<double>(c.floating_point_operations) * BusiestShare(s) / per_sm * 1e6;
}

double Fp64Us(const records::LaunchCounters& c, const Shape& s, const device::Description& d) {
  // A fused multiply-add is two operations.
  const double operations = MixOf(c, records::InstructionClass::kFp64) * kWarpSize * 2;
  const double per_sm = d.fp64_flops / std::max(d.sm_count, 1);
  return operations * BusiestShare(s) / per_sm * 1e6;
}

double IntegerUs(const records::LaunchCounters& c, const Shape& s) {
  const double lanes = kWarpSize * std::max(0.0, MixOf(c, records::InstructionClass::kInteger) -
                                                     static_cast<double>(c.free_instructions));
  return lanes / kIntegersPerClock * BusiestShare(s) / s.clock_mhz;
}

double SpecialUs(const records::LaunchCounters& c, const Shape& s) {
  const double clocks =
      kWarpSize * std::max(MixOf(c, records::InstructionClass::kSpecial) / kSpecialPerClock,
                           MixOf(c, records::InstructionClass::kConversion) / kConversionsPerClock);
  return clocks * BusiestShare(s) / s.clock_mhz;
}

double TensorUs(const records::LaunchCounters& c, const Shape& s, const device::Description& d) {
  const double per_sm = d.tensor_flops / std::max(d.sm_count, 1);
  return static_cast<double>(c.tensor_operations) * BusiestShare(s) / per_sm * 1e6;
}

double SharedUs(const records::LaunchCounters& c, const Shape& s) {
  const auto clocks = static_cast<double>(c.shared_wavefronts);
  return clocks * BusiestShare(s) / s.clock_mhz;
}

// Repeated reads come from the L2 for the part of the footprint that fits into it.
double DramUs(const CostInput& input, const Traffic& traffic, const device::Description& d) {
  // Tiling keeps most reuse close together even when the footprint exceeds the L2. A guess.
  constexpr double kFarReuse = 0.1;
  const auto footprint = static_cast<double>(input.footprint_bytes);
  const double missing =
      footprint > 0 ? std::max(0.0, 1 - static_cast<double>(d.l2_bytes) / footprint) : 0;
  const double bytes = traffic.first() + (traffic.all() - traffic.first()) * missing * kFarReuse;
  return bytes / d.dram_bytes * 1e6;
}

double L2Us(const records::LaunchCounters& c, const Traffic& traffic, const Shape& s,
            const device::Description& d) {
  const double whole = traffic.all() / d.l2_bandwidth * 1e6;
  const double busiest = traffic.all() * BusiestShare(s) / (kL2BytesPerSmClock * s.clock_mhz);
  const auto sectors = static_cast<double>(c.global_store_sectors);
  // Lines per sector: 0.25 if four sectors fill each line, 1 if each sector is in another line.
  const double lines = sectors > 0 ? static_cast<double>(c.work.store_lines) / sectors : 0;
  const double scattered = std::clamp((lines - 0.25) / 0.75, 0.0, 1.0);
  const double stored = sectors * ((1 - scattered) / kStoreSectorsPerClock +
                                   scattered / kScatteredStoreSectorsPerClock);
  return std::max({whole, busiest, stored / s.clock_mhz});
}

// A request takes one clock per line, or the time to deliver its bytes.
double L1Us(const records::LaunchCounters& c, const Shape& s) {
  const auto requests = static_cast<double>(c.work.load_requests + c.work.store_requests);
  const auto lines = static_cast<double>(c.work.load_lines + c.work.store_lines);
  const double bytes =
      static_cast<double>(c.global_load_sectors + c.global_store_sectors) * kSectorBytes;
  const double clocks = std::max({requests, lines / kL1LinesPerClock, bytes / kLineBytes});
  return clocks * BusiestShare(s) / s.clock_mhz;
}

// Atomics at one line execute one after another; others spread over the L2.
double AtomicsUs(const records::LaunchCounters& c, const Shape& s) {
  const double clocks =
      std::max(static_cast<double>(c.hottest_atomics) / kAtomicTurnsPerClock,
               static_cast<double>(c.work.atomic_sectors) / kAtomicSectorsPerClock);
  return clocks / s.clock_mhz;
}

}  // namespace

std::vector<std::pair<std::string, double>> CostBreakdown::Bounds() const {
  std::vector<std::pair<std::string, double>> bounds = {
      {"blocks", blocks_us},   {"issue", issue_us},   {"latency", latency_us},
      {"fp32", fp32_us},       {"fp64", fp64_us},     {"integer", integer_us},
      {"special", special_us}, {"tensor", tensor_us}, {"shared", shared_us},
      {"dram", dram_us},       {"l2", l2_us},         {"l1", l1_us},
      {"atomics", atomics_us}};
  std::stable_sort(bounds.begin(), bounds.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return bounds;
}

double CostBreakdown::Total() const {
  const double memory = std::max(dram_us, l2_us);  // the same bytes pass both
  double sum = memory * memory + 2 * in_step * dram_us * latency_us;
  for (const auto& [name, us] : Bounds()) sum += name == "dram" || name == "l2" ? 0 : us * us;
  return std::sqrt(sum) + launch_us;
}

double Imbalance(std::span<const uint32_t> work, uint64_t blocks,
                 const device::Description& device) {
  if (work.empty() || blocks == 0) return 1;
  const auto most = static_cast<double>(*std::max_element(work.begin(), work.end()));
  const double mean =
      std::accumulate(work.begin(), work.end(), 0.0) / static_cast<double>(work.size());
  if (mean <= 0 || most <= 1.01 * mean) return 1;
  const auto sms = static_cast<uint64_t>(std::max(device.sm_count, 1));
  const double alike = std::ceil(static_cast<double>(blocks) / static_cast<double>(sms)) * mean;
  if (work.size() < blocks) return std::max(1.0, (alike + most - mean) / alike);
  // Assign blocks in order, each to the SM with the least work so far.
  std::priority_queue<double, std::vector<double>, std::greater<>> loads;
  double busiest = 0;
  for (uint32_t block : work) {
    double load = block;
    if (loads.size() >= sms) {
      load += loads.top();
      loads.pop();
    }
    busiest = std::max(busiest, load);
    loads.push(load);
  }
  return std::max(1.0, busiest / alike);
}

CostBreakdown EstimateLaunch(const CostInput& input, const device::Description& device) {
  CostBreakdown cost;
  cost.launch_us = device.launch_latency_us;
  if (input.counters.grid.Count() == 0 || input.counters.block.Count() == 0) return cost;
  const Shape shape = ShapeOf(input, device);
  cost.launch_us += kCodeLatency / shape.clock_mhz;
  const Traffic traffic = TrafficOf(input);
  if (traffic.all() > 0) cost.in_step = traffic.loads / traffic.all() / shape.waves;
  const records::LaunchCounters& c = input.counters;
  cost.blocks_us = shape.blocks / kBlocksPerClock / shape.clock_mhz;
  cost.issue_us = IssueUs(c, shape);
  cost.integer_us = IntegerUs(c, shape);
  cost.fp32_us = Fp32Us(c, shape, device);
  cost.fp64_us = Fp64Us(c, shape, device);
  cost.special_us = SpecialUs(c, shape);
  cost.tensor_us = TensorUs(c, shape, device);
  cost.shared_us = SharedUs(c, shape);
  cost.dram_us = DramUs(input, traffic, device);
  cost.l2_us = L2Us(c, traffic, shape, device);
  cost.l1_us = L1Us(c, shape);
  cost.atomics_us = AtomicsUs(c, shape);
  // A waiting unit also has its own work to do, and only other units fill its gaps. With barriers
  // the whole block waits as one unit, otherwise each warp is a unit.
  const double busy = std::max({cost.issue_us, cost.shared_us, cost.l1_us, cost.fp32_us,
                                cost.integer_us, cost.fp64_us, cost.special_us, cost.tensor_us});
  const double units = shape.blocks_of_busiest * (c.barriers > 0 ? 1 : shape.warps_per_block);
  cost.latency_us = LatencyUs(input, traffic, shape) + shape.waves * busy / units;
  return cost;
}

double EstimateCopyUs(uint64_t bytes, const device::Description& device) {
  return device.launch_latency_us + 2 * static_cast<double>(bytes) / device.dram_bytes * 1e6;
}

double EstimateGemmUs(double flops, double peak, double bytes, const device::Description& device) {
  return device.launch_latency_us +
         std::max(flops / peak, bytes / device.dram_bytes) / kLibraryShare * 1e6;
}

}  // namespace cupel::emu
