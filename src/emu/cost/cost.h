// Estimates the time of a launch on the described GPU from the interpreter's counts. The estimate
// ranks variants of one kernel; it is not a measurement, and every output says so. The model is a
// roofline with latency. It combines several bounds (Total) and adds the fixed time of a launch.
// Each bound is a small function in cost.cc, where its constants are named and their sources given.
//
// Not modelled: reuse between blocks of an SM, DRAM bank conflicts, clock throttling, and changes
// that ptxas makes to the PTX (except fused shared accesses, predicated branches and unrolled
// loops: regions.h).
// SPDX-License-Identifier: Apache-2.0
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
  records::LaunchCounters counters;  // grid, block and counts
  device::Occupancy occupancy;
  /// Bytes of all buffers that the launch's parameters point into: the most that a launch must move
  /// through DRAM in each direction. 0: not known.
  uint64_t footprint_bytes = 0;
  /// Bytes of those buffers that hold data before the launch: the most that the launch must read
  /// from DRAM, unless it reads its own results. 0: not known.
  uint64_t filled_bytes = 0;
};

/// The bounds and the fixed launch time, in microseconds.
struct CostBreakdown {
  double blocks_us = 0;   // starting blocks
  double issue_us = 0;    // warp instructions on the busiest SM's schedulers
  double latency_us = 0;  // one warp's dependent chain, wave after wave
  double fp32_us = 0;     // arithmetic on the FP32 lanes
  double fp64_us = 0;     // arithmetic on the FP64 lanes
  double integer_us = 0;  // arithmetic on the integer lanes
  double special_us = 0;  // roots, exponentials, …; and conversions, on their units
  double tensor_us = 0;   // operations on the tensor cores
  double shared_us = 0;   // shared-memory wavefronts
  double dram_us = 0;     // bytes between DRAM and L2
  double l2_us = 0;       // L1 misses and stores, between L2 and the SMs in use
  double l1_us = 0;       // all sectors through the L1 of the busiest SM
  double atomics_us = 0;  // atomics at the L2
  double launch_us = 0;
  /// The share of DRAM's time during which warps wait in step: 1 if the launch only loads and all
  /// blocks run at the same time. Blocks of other waves fill the gaps, and stores do not wait.
  double in_step = 0;
  /// The root of the sum of the squared bounds, plus launch_us; of DRAM and L2 only the slower
  /// counts. Latency and DRAM add up as far as warps wait in step. The result is close to the
  /// slowest bound if that dominates, and larger if several bounds are similar, because they
  /// overlap imperfectly. It also orders variants that have the same slowest bound.
  double Total() const;
  /// All bounds by name ("dram", "latency", …), the slowest first.
  std::vector<std::pair<std::string, double>> Bounds() const;
};

/// The work of the busiest SM divided by its work if all blocks were equal; at least 1. `work` has
/// the work of each of `blocks` blocks in order, or of a sample of them.
double Imbalance(std::span<const uint32_t> work, uint64_t blocks,
                 const device::Description& device);

/// No bound decreases if a count increases.
CostBreakdown EstimateLaunch(const CostInput& input, const device::Description& device);

/// The time of a copy, upload or fill of `bytes` bytes (counted once).
double EstimateCopyUs(uint64_t bytes, const device::Description& device);

/// The time of a library's matrix product: `flops` operations at a typical share of `peak`
/// operations per second, and `bytes` of its matrices, counted once.
double EstimateGemmUs(double flops, double peak, double bytes, const device::Description& device);

}  // namespace cupel::emu
