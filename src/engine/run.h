// What executing a plan yields: outputs, findings, counters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "engine/line_counters.h"
#include "plan/plan.h"
#include "task/tensor.h"

namespace cupel::engine {

enum class Severity { kError, kWarning };

/// Something an engine saw that a correct kernel does not do.
struct Finding {
  std::string code;  // "out_of_bounds", "misaligned", "illegal_launch", "barrier_divergence", …
  Severity severity = Severity::kError;
  std::string kernel;  // demangled name with template arguments
  std::string file;    // of the source line; empty when unknown
  int line = 0;
  plan::Dim3 block{0, 0, 0}, thread{0, 0, 0};
  std::string where;    // "argument 1 (weights) + 5120 bytes, 4 past its end"; may be empty
  std::string message;  // one sentence
  uint64_t count = 1;   // occurrences of the same code at the same line
};

/// What one launch cost, summed over its blocks.
struct LaunchCounters {
  std::string kernel;
  plan::Dim3 grid, block;
  uint64_t warp_instructions = 0;
  uint64_t lane_instructions = 0;
  uint64_t global_load_sectors = 0, global_store_sectors = 0;  // 32-byte sectors
  uint64_t global_load_bytes = 0, global_store_bytes = 0;      // useful bytes
  uint64_t shared_wavefronts = 0;
  uint64_t global_atomics = 0;
  uint64_t barriers = 0;
  uint64_t floating_point_operations = 0;  // of lanes
  double occupancy = 0;                    // resident warps over the maximum
  double estimated_us = 0;                 // always called an estimate
  /// All lines together; the members above that it holds too have the same values.
  WorkCounts work;
  InstructionMix mix{};
  /// Turns that atomics take at the 128-byte line of global memory that gets the most: one for each
  /// lane, two for lanes that add to all of the line together.
  uint64_t hottest_atomics = 0;
  /// Warp instructions that machine code does without: moves between registers.
  uint64_t free_instructions = 0;
  /// Clocks that atomics on shared memory spend on trying again, summed over warps.
  uint64_t retry_clocks = 0;
  /// Along the longest chain of dependent instructions of each basic block, summed over warps.
  uint64_t chain_clocks = 0;  // all but loads
  uint64_t chain_loads = 0, chain_shared_loads = 0;
  uint64_t chain_misses = 0;  // of those loads: of what the block had not loaded shortly before
  /// Warp instructions of each block's busiest warp, summed over blocks.
  uint64_t critical_warp_instructions = 0;
  uint64_t tensor_operations = 0;  // of tensor cores, as many as at the rate of float16
  /// Work of the busiest SM over what it would have if blocks were alike; at least 1.
  double imbalance = 1;
  uint64_t blocks_run = 0, blocks_counted = 0;  // counts are extrapolated from these
  int registers = 0;
  int64_t shared_bytes = 0;
  std::string limited_by;  // what limits the occupancy
  /// What the estimate is made of: names and microseconds, the slowest first.
  std::vector<std::pair<std::string, double>> bounds;
  std::vector<LineCounters> lines;  // by work, the most first
};

struct Counters {
  std::vector<LaunchCounters> launches;
  double estimated_us = 0;  // whole plan on the described device, an estimate
};

/// Why the shadow of an element shows less than it could.
enum ShadowState : uint8_t {
  kShadowReset = 1,   // upstream the shadow was replaced by the value
  kShadowBranch = 2,  // upstream a decision depended on rounding
};

/// Where in the program shadows were replaced or doubted.
struct ShadowCause {
  std::string what;      // "shl.b32 at kernel.cu:12"
  int64_t elements = 0;  // of the output that this lies upstream of
};

/// Elements [begin, end) in row-major order.
struct ElementRange {
  int64_t begin = 0, end = 0;
};

/// An output tensor with its own bytes, contiguous.
struct OutputTensor {
  bool is_none = false;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
  /// Shadow runs only, by element: what exact arithmetic gives, and what stands in the way of
  /// saying so (bits of ShadowState; 0: established).
  std::vector<double> shadow;
  std::vector<uint8_t> shadow_state;
  std::vector<ShadowCause> shadow_causes;  // of states other than 0, the most frequent first
  /// Only some blocks of the launch that computes it ran: `bytes` holds the elements that they
  /// wrote, which are `written` (sorted), one range behind the other.
  bool is_sampled = false;
  std::vector<ElementRange> written;
  task::Tensor View() const;
};

struct Run {
  /// False when execution stopped early; findings say why, outputs are empty.
  bool completed = false;
  /// Set when the program uses what this engine does not implement ("mbarrier.init at
  /// kernel.cu:31").
  std::string unsupported;
  std::vector<OutputTensor> outputs;
  std::vector<Finding> findings;
  std::vector<std::string> printed;  // by the kernels' printf, a string a call
  Counters counters;
  /// A kernel used atomics or waits for other blocks: what comes first may matter.
  bool order_matters = false;
  /// Shadow runs: instructions whose results shadows do not follow.
  std::vector<std::string> not_followed;
  /// Blocks emulated of those in all grids; fewer only with RunOptions::max_blocks.
  uint64_t emulated_blocks = 0, all_blocks = 0;
  /// Of all launches, extrapolated to blocks that were not emulated.
  uint64_t warp_instructions = 0;
  double seconds = 0;  // wall time of the execution
};

}  // namespace cupel::engine
