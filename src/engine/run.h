// The result of executing a plan: outputs, findings, counters.
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

/// Something that an engine observed and that a correct kernel does not do.
struct Finding {
  std::string code;  // "out_of_bounds", "misaligned", "illegal_launch", "barrier_divergence", …
  Severity severity = Severity::kError;
  std::string kernel;  // demangled name with template arguments
  std::string file;    // of the source line; empty if unknown
  int line = 0;
  plan::Dim3 block{0, 0, 0}, thread{0, 0, 0};
  std::string where;       // "argument 1 (weights) + 5120 bytes, 4 past its end"; may be empty
  std::string message;     // one sentence
  uint64_t count = 1;      // occurrences of the same code at the same line
  bool undefined = false;  // the kernel got values that are not defined
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

/// Why the shadow of an element is not conclusive.
enum ShadowState : uint8_t {
  kShadowReset = 1,   // an earlier step replaced the shadow by the value
  kShadowBranch = 2,  // an earlier decision depended on rounding
  kShadowSmall = 4,   // an earlier step rounded to a float of 8 bits
};

/// A place in the program where shadows were reset or doubted.
struct ShadowCause {
  std::string what;      // "shl.b32 at kernel.cu:12"
  int64_t elements = 0;  // output elements that depend on this place
};

/// Elements [begin, end) in row-major order.
struct ElementRange {
  int64_t begin = 0, end = 0;
};

/// A contiguous output tensor that owns its bytes.
struct OutputTensor {
  bool is_none = false;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
  /// Shadow runs only, by element: the result of exact arithmetic, and why it is not conclusive
  /// (bits of ShadowState; 0: established).
  std::vector<double> shadow;
  std::vector<uint8_t> shadow_state;
  std::vector<ShadowCause> shadow_causes;  // of states other than 0, most frequent first
  /// Only some blocks of the launch that computes it ran: `bytes` contains only the elements that
  /// they wrote. `written` lists these as sorted ranges, in the order of `bytes`.
  bool is_sampled = false;
  std::vector<ElementRange> written;
  task::Tensor View() const;
};

struct Run {
  /// False if execution stopped early; then findings say why, and outputs are empty.
  bool completed = false;
  /// Set if the program uses something that this engine does not implement ("mbarrier.init at
  /// kernel.cu:31").
  std::string unsupported;
  std::vector<OutputTensor> outputs;
  std::vector<Finding> findings;
  std::vector<std::string> printed;  // by the kernels' printf, one string per call
  Counters counters;
  /// A kernel used atomics or waits for other blocks, so the order of execution may matter.
  bool order_matters = false;
  /// Shadow runs: instructions whose results shadows do not follow.
  std::vector<std::string> not_followed;
  /// Blocks emulated, and blocks of all grids; they differ only with RunOptions::max_blocks.
  uint64_t emulated_blocks = 0, all_blocks = 0;
  /// Summed over all launches, extrapolated to blocks that were not emulated.
  uint64_t warp_instructions = 0;
  double seconds = 0;  // wall time of the execution
};

}  // namespace cupel::engine
