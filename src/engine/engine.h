// The interface of engines. An engine executes a plan on bound inputs and reports what happened.
// Two engines implement it: emu (CPU) and gpu, which also measures time (timing.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "build/image.h"
#include "device/device.h"
#include "engine/field.h"
#include "engine/run.h"
#include "engine/timing.h"
#include "records/gpu_state.h"

namespace cupel::engine {

struct RunOptions {
  uint64_t seed = 0;  // for schedules and poison values
  // Limits that stop endless loops. The limit per block distinguishes a hang from legitimate work:
  // the largest grids of the benchmark execute about 10^7 in a block. With full checks, which are
  // slower, the limit is an eighth of this.
  uint64_t max_warp_instructions = 40'000'000'000;     // per launch
  uint64_t max_block_warp_instructions = 500'000'000;  // per block
  /// What unwritten memory reads as: 0 NaN, 1 a huge number, 2 its negative. Several values are
  /// needed because a kernel may hide one (fmaxf drops a NaN).
  int poison = 0;
  bool counters = true;
  /// Also detects races on shared memory and reads of unwritten shared memory (slower).
  bool full_checks = false;
  bool lists_barriers = false;  // Run::barriers
  /// With full checks: the race checks leave out the barriers at this place, one of Run::barriers.
  /// Races are then errors even if the values that are read are not used.
  std::string muted_barrier;
  /// Carries shadow values (docs/judging.md); several times slower.
  bool shadows = false;
  /// Shadow runs only: shadows are elements of a finite field instead of real numbers. The float
  /// arguments are random elements (docs/proof.md).
  std::optional<FieldOptions> field;
  /// Shadow runs only: the types of the arguments, so that a float read as an integer is
  /// recognised, and two halves that are read as a float.
  std::vector<DType> argument_types;
  /// 0: the usual order of blocks and warps. Any other number: another fair order, the same for the
  /// same number.
  uint64_t schedule = 0;
  /// For larger grids, runs a random subset of about this many blocks, if blocks do not depend on
  /// each other and nothing reads what the others would have written (Run::emulated_blocks).
  /// 0: all blocks.
  uint64_t max_blocks = 0;
  /// Checks only addresses, of some blocks of each launch (`max_blocks`, those of the corners among
  /// them). Memory reads as zeros and takes space only where it is written, so it may be larger
  /// than any machine's. Other nodes than launches and uploads are left out. The run has no
  /// outputs, and only its findings about addresses mean something.
  bool addresses_only = false;
  /// Checked regularly; if it returns true, the run ends with kCancelled.
  std::function<bool()> cancelled;
};

/// Loaded images. Thread-compatible: one Execute at a time.
class Program {
 public:
  virtual ~Program() = default;
  /// `arguments` are the storages of the tensor leaves in order (task::TensorLeaves). They are
  /// copied, never written. The plan must have been validated. A fault of the candidate is a
  /// Finding; an Error means that the engine failed.
  virtual Result<Run> Execute(const plan::Plan& plan,
                              std::span<const std::span<const std::byte>> arguments,
                              const RunOptions& options) = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string Name() const = 0;  // "emu"
  virtual const device::Description& Device() const = 0;
  /// Prepares the images of a candidate. Its plans' launches and variables have indices into them.
  /// Unsupported constructs may be reported here or by Execute.
  virtual Result<std::unique_ptr<Program>> Load(const build::Images& images) = 0;

  /// While the returned object lives, no other process of cupel uses the same device. Null if the
  /// engine has no device to share. Fails with kTimeout.
  virtual Result<std::shared_ptr<void>> Reserve();

  /// While the returned object lives, no process of cupel begins to measure on the device, but all
  /// may use it: for preparations that take long. Null if the engine has no device to share. Fails
  /// with kTimeout.
  virtual Result<std::shared_ptr<void>> PutOffMeasurements();

  // Only an engine with a clock overrides the functions below; others return kUnsupported.

  /// Times programs of this engine on the same `sets` of arguments. Each set is as for Execute.
  virtual Result<std::unique_ptr<Timer>> MakeTimer(
      std::span<const Entrant> entrants,
      std::span<const std::vector<std::span<const std::byte>>> sets);
  virtual Result<records::GpuState> State();
  virtual Result<records::Ceilings> MeasureCeilings();
  virtual Result<ClockKernels> Kernels();
};

}  // namespace cupel::engine
