// The interface of engines: something that executes a plan on bound inputs and tells what happened.
// Two engines implement it: emu (CPU) and gpu.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "build/image.h"
#include "device/device.h"
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
  uint64_t floating_point_operations = 0;
  double occupancy = 0;     // resident warps over the maximum
  double estimated_us = 0;  // always called an estimate
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

struct RunOptions {
  uint64_t seed = 0;  // of schedules and poisons
  // End endless loops. A block's share is what tells a hang from honest work: the largest grids of
  // the benchmark spend some 10^7 in a block. With full checks, which are slower, it is an eighth.
  uint64_t max_warp_instructions = 40'000'000'000;     // per launch
  uint64_t max_block_warp_instructions = 500'000'000;  // per block
  /// What memory that nothing has written reads as: 0 NaN, 1 a huge number, 2 its negative. One
  /// alone can be hidden (fmaxf drops a NaN).
  int poison = 0;
  bool counters = true;
  /// Also looks for races on shared memory and reads of shared memory that nobody wrote (slower).
  bool full_checks = false;
  /// Carries shadow values (docs/judging.md); several times slower. Arithmetic over a prime field,
  /// which would show identities that no rounding blurs, would be another value to carry here: the
  /// same moves, resets and flags, another type beside each float.
  bool shadows = false;
  /// Shadow runs: what the arguments hold, so that a float is known that is read as an integer.
  std::vector<DType> argument_types;
  /// 0: the usual order of blocks and warps. Any other number: another fair one, the same each
  /// time.
  uint64_t schedule = 0;
  /// Of larger grids run a random subset of about so many blocks, where blocks do not depend on
  /// each other and nothing reads what they would have written (Run::emulated_blocks). 0: all.
  uint64_t max_blocks = 0;
  /// Checked now and then; returning true ends the run with kCancelled.
  std::function<bool()> cancelled;
};

/// A loaded image. Thread-compatible: one Execute at a time.
class Program {
 public:
  virtual ~Program() = default;
  /// `arguments` are the storages of the tensor leaves in order (task::TensorLeaves); they are
  /// copied, never written. The plan has been validated. Candidate misbehaviour is a Finding; Error
  /// means the engine failed.
  virtual Result<Run> Execute(const plan::Plan& plan,
                              std::span<const std::span<const std::byte>> arguments,
                              const RunOptions& options) = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string Name() const = 0;  // "emu"
  virtual const device::Description& Device() const = 0;
  /// Prepares an image; `unsupported` constructs may surface here or at Execute.
  virtual Result<std::unique_ptr<Program>> Load(const build::Image& image) = 0;
};

}  // namespace cupel::engine
