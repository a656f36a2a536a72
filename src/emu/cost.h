// An estimate of what a launch takes on the described GPU, from counts that the interpreter made.
// It ranks variants of one kernel; it is not a measurement and every output says so. The model is a
// roofline with latency: the slowest of several bounds, each a small function below with its
// constants named and sourced in cost.cc, plus the time a launch takes at all.
//
// What it leaves out: reuse between blocks of an SM, conflicts of DRAM's banks, clock throttling,
// PTX that ptxas rewrites (but fused shared accesses). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "engine/engine.h"

namespace cupel::emu {

struct CostInput {
  engine::LaunchCounters counters;  // grid, block and counts
  device::Occupancy occupancy;
  /// Bytes of all buffers that the launch's parameters point into: no more can cross DRAM once each
  /// way. 0: not known.
  uint64_t footprint_bytes = 0;
  /// Of those that something lies in before the launch: no more is read from DRAM once, unless the
  /// launch reads its own results. 0: not known.
  uint64_t filled_bytes = 0;
};

/// The bounds, in microseconds, without the launch itself.
struct CostBreakdown {
  double blocks_us = 0;   // handing out blocks
  double issue_us = 0;    // warp instructions against the busiest SM's schedulers
  double latency_us = 0;  // one warp's dependent chain, wave after wave
  double fp32_us = 0;     // arithmetic against the FP32 lanes
  double fp64_us = 0;     // against the FP64 lanes
  double integer_us = 0;  // against the integer lanes
  double special_us = 0;  // roots, exponentials, …; and conversions, against their units
  double tensor_us = 0;   // against the tensor cores
  double shared_us = 0;   // shared-memory wavefronts
  double dram_us = 0;     // bytes that must cross DRAM
  double l2_us = 0;       // what L1 misses, between L2 and the SMs in use
  double l1_us = 0;       // all sectors through the L1 of the busiest SM
  double atomics_us = 0;  // atomics at the L2
  double launch_us = 0;
  /// The root of the bounds' squares, of DRAM and L2 the slower, plus launch_us: hardly more than
  /// the slowest bound where it stands alone, more where several are close and overlap imperfectly;
  /// it also orders variants that share the slowest.
  double Total() const;
  /// All of them by name ("dram", "latency", …), the slowest first.
  std::vector<std::pair<std::string, double>> Bounds() const;
};

/// Work of the busiest SM over its share of blocks that are all alike: at least 1. `work` is that
/// of each block in order, or of some of `blocks`.
double Imbalance(std::span<const uint32_t> work, uint64_t blocks,
                 const device::Description& device);

/// Every bound grows (weakly) with every count.
CostBreakdown EstimateLaunch(const CostInput& input, const device::Description& device);

/// A copy, upload or fill of `bytes` bytes (counted once).
double EstimateCopyUs(uint64_t bytes, const device::Description& device);

/// A matrix product by a library: `flops` operations at a usual share of the units' `peak` a
/// second, and `bytes` of its matrices, once.
double EstimateGemmUs(double flops, double peak, double bytes, const device::Description& device);

}  // namespace cupel::emu
