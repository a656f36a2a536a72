// An engine's counters: what launches cost, as a whole and by source line, and the parts of their
// estimated time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"

namespace cupel::records {
/// The part of an SM that an instruction uses.
enum class InstructionClass : uint8_t {
  kFp32,
  kFp64,
  kFp16,
  kTensor,
  kInteger,  // includes moves, selections and predicates
  kSpecial,  // reciprocals, roots, exponentials, sines
  kConversion,
  kGlobal,
  kShared,
  kLocal,
  kConstant,  // constants and kernel parameters
  kAtomic,
  kControl,
  kBarrier,  // barriers and fences
  kWarp,     // shuffles, votes
};
inline constexpr size_t kInstructionClasses = 15;
/// "fp32", "special", …
const char* Name(InstructionClass which);
/// Warp instructions by class.
using InstructionMix = std::array<uint64_t, kInstructionClasses>;

/// The distances between lanes' addresses follow no rule.
inline constexpr int64_t kIrregular = std::numeric_limits<int64_t>::min();

/// Work of one line or launch. A request is a warp instruction with at least one active lane.
struct WorkCounts {
  uint64_t warp_instructions = 0, lane_instructions = 0;
  uint64_t branches = 0, divergent_branches = 0;   // conditional branches; those that diverged
  uint64_t load_requests = 0, store_requests = 0;  // global memory
  uint64_t load_sectors = 0, store_sectors = 0;    // 32 bytes each
  /// Loads of data that the block had not loaded shortly before: requests, and their sectors.
  uint64_t missed_requests = 0, missed_sectors = 0;
  uint64_t load_lines = 0, store_lines = 0;  // 128 bytes each
  uint64_t load_bytes = 0, store_bytes = 0;  // requested, summed over lanes
  uint64_t touched_bytes = 0;  // bytes of those sectors that at least one lane requested
  uint64_t shared_requests = 0;
  uint64_t shared_wavefronts = 0, shared_ideal_wavefronts = 0;  // without bank conflicts
  uint64_t atomic_requests = 0, atomic_lanes = 0;               // global memory
  uint64_t atomic_sectors = 0;
  uint64_t atomic_turns = 0;  // summed over requests: lanes at the address with the most lanes
  uint64_t barriers = 0;

  void Add(const WorkCounts& other);
  uint64_t sectors() const { return load_sectors + store_sectors; }
};

struct LineCounters {
  std::string file;
  int line = 0;
  WorkCounts work;
  int64_t lane_stride =
      kIrregular;  // bytes between neighbouring lanes of most global accesses here
};

/// What one launch cost, summed over its blocks.
struct LaunchCounters {
  std::string kernel;
  plan::Dim3 grid, block;
  uint64_t warp_instructions = 0;
  uint64_t lane_instructions = 0;
  uint64_t global_load_sectors = 0, global_store_sectors = 0;  // 32-byte sectors
  uint64_t global_load_bytes = 0, global_store_bytes = 0;      // useful bytes
  uint64_t global_requests = 0;  // warp instructions that access global memory
  uint64_t shared_wavefronts = 0;
  uint64_t global_atomics = 0;
  uint64_t barriers = 0;
  uint64_t floating_point_operations = 0;  // of lanes
  double occupancy = 0;                    // resident warps over the maximum
  double estimated_us = 0;                 // always called an estimate
  /// All lines together. Members that are also above have the same values.
  WorkCounts work;
  InstructionMix mix{};
  /// Turns that atomics take at the busiest 128-byte line of global memory: one for each lane, or
  /// two for lanes that together add to the whole line.
  uint64_t hottest_atomics = 0;
  /// Warp instructions that machine code does not need: moves between registers.
  uint64_t free_instructions = 0;
  /// Clocks that atomics on shared memory spend on retries, summed over warps.
  uint64_t retry_clocks = 0;
  /// Along the longest chain of dependent instructions of each basic block, summed over warps.
  uint64_t chain_clocks = 0;  // excluding loads
  uint64_t chain_loads = 0, chain_shared_loads = 0;
  uint64_t chain_misses = 0;  // chain loads of data that the block had not loaded shortly before
  /// Warp instructions of each block's busiest warp, summed over blocks.
  uint64_t critical_warp_instructions = 0;
  uint64_t tensor_operations = 0;  // of tensor cores, converted to the rate of float16
  /// Work of the busiest SM divided by its work if all blocks were equal; at least 1.
  double imbalance = 1;
  uint64_t blocks_run = 0, blocks_counted = 0;  // counts are extrapolated from these
  int registers = 0;
  int64_t shared_bytes = 0;
  std::string limited_by;  // what limits the occupancy
  /// The parts of the estimate: names and microseconds, slowest first.
  std::vector<std::pair<std::string, double>> bounds;
  std::vector<LineCounters> lines;  // most work first
};

struct Counters {
  std::vector<LaunchCounters> launches;
  double estimated_us = 0;  // estimate for the whole plan on the described device
};

}  // namespace cupel::records
