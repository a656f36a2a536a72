// An engine's counters of a launch: work by source line, and instructions by class.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace cupel::engine {

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
  int64_t lane_stride = 0;  // bytes between neighbouring lanes of most global accesses here
};

}  // namespace cupel::engine
