// The interface of engines: something that executes a plan on bound inputs and tells what happened.
// Two engines implement it: emu (CPU) and gpu, which has a clock too (timing.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "build/image.h"
#include "device/device.h"
#include "engine/ceilings.h"
#include "engine/run.h"
#include "engine/timing.h"

namespace cupel::engine {

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

  /// While what it returns lives, no other process of cupel uses the same device. Empty where there
  /// is no device to share. kTimeout.
  virtual Result<std::shared_ptr<void>> Reserve();

  // Only an engine that has a clock overrides these; the others say kUnsupported.

  /// Times programs of this engine on the same `sets` of arguments; each set as for Execute.
  virtual Result<std::unique_ptr<Timer>> MakeTimer(
      std::span<const Entrant> entrants,
      std::span<const std::vector<std::span<const std::byte>>> sets);
  virtual Result<GpuState> State();
  virtual Result<Ceilings> MeasureCeilings();
  virtual Result<ClockKernels> Kernels();
};

}  // namespace cupel::engine
