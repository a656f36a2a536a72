// The useful facts about a profiled launch. Facts that the profiler did not report are absent.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "gpu/ncu_report.h"

namespace cupel::gpu {

/// Why warps did not issue instructions.
struct Stall {
  std::string reason;  // Nsight Compute's name: "long_scoreboard"
  double share = 0;    // of the time that warps spend between two instructions
};

/// A rule's advice, in plain text.
struct Advice {
  std::string rule, text, scope;
  double speedup_percent = -1;  // estimated by the rule; -1: not estimated
};

struct KernelFacts {
  std::string kernel;  // mangled
  plan::Dim3 grid, block;
  std::optional<double> duration_us;
  // Of the peak while the kernel ran, in percent.
  std::optional<double> dram_percent, l2_percent, l1_percent, compute_percent, tensor_percent;
  std::optional<double> issue_percent;  // cycles in which an SM's schedulers issued
  std::optional<double> occupancy_percent, possible_occupancy_percent;
  std::optional<double> waves;  // of blocks, over all SMs
  std::optional<double> registers, static_shared_bytes, dynamic_shared_bytes;
  std::optional<double> l1_hit_percent, l2_hit_percent;
  std::optional<double> dram_read_bytes, dram_written_bytes;
  // 32-byte sectors for each global memory instruction of a warp.
  std::optional<double> sectors_per_load, sectors_per_store;
  // Of the 32 bytes of each of these sectors, how many the lanes requested.
  std::optional<double> used_bytes_of_loads, used_bytes_of_stores;
  std::optional<double> bank_conflict_percent;  // of shared memory's wavefronts
  std::optional<double> active_lanes;           // of 32
  std::vector<std::string> limited_by;          // what limits the possible occupancy
  std::vector<Stall> stalls;                    // the three largest
  std::vector<Advice> advice;                   // without repetitions, largest speedup first
};

KernelFacts FactsOf(const NcuKernel& kernel);

/// What the warps wait for: "global or local memory"; empty if unknown.
const char* MeaningOfStall(const std::string& reason);

/// As in "cupel.profile/1" (docs/formats).
Json ToJson(const KernelFacts& facts);

}  // namespace cupel::gpu
