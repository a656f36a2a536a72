// The clock of an engine that has one: timed replays of plans, one at a time, so that the caller
// can interleave several and decide when it has seen enough. docs/measuring.md has the protocol.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "engine/run.h"

namespace cupel::engine {

class Program;

enum class TimingMode {
  kCold,  // the L2 holds nothing of the plan's; workspaces and outputs are poisoned, variables
          // reset
  kWarm,  // directly after another replay on the same buffers
  kHost,  // wall time of launching one by one and waiting, as C++ code would
};

/// One of those that are timed on the same inputs; all is borrowed.
struct Entrant {
  Program* program = nullptr;
  /// One for all sets of arguments, or one for each: a plan may depend on one-element tensors.
  std::vector<const plan::Plan*> plans;
};

/// Bytes of an argument that hold something else during a replay.
struct Change {
  int argument = 0;
  uint64_t offset = 0;
  std::string bytes;
};

struct TakeRequest {
  size_t entrant = 0;
  TimingMode mode = TimingMode::kCold;
  int set = 0;
  int count = 1;                // replays, each a sample
  std::vector<Change> changes;  // for these replays only
  bool keep_outputs = false;    // of the last replay
};

struct Taken {
  /// Between two events, what recording and launching take included (Timer::TakeNothing says how
  /// much that is); wall time in host mode.
  std::vector<double> us;
  std::vector<OutputTensor> outputs;
  std::vector<Finding> findings;  // not empty: nothing was timed
  std::string unsupported;        // what the engine cannot replay
};

struct EnergyUse {
  double joules = 0;  // of one call, warm, the idle GPU's share included
  double watts = 0;
  int64_t calls = 0;
};

/// Not thread-safe. Borrows programs, plans and arguments.
class Timer {
 public:
  virtual ~Timer() = default;
  /// Input sets held, fewer than given when memory is short; at least one.
  virtual int Sets() const = 0;
  virtual Result<Taken> Take(const TakeRequest& request) = 0;
  /// What the clock itself takes, once, microseconds: an empty kernel behind a flush, less what
  /// CUPTI sees of such a kernel.
  virtual Result<double> TakeNothing() = 0;
  /// Replays for about so long. kUnsupported where the GPU has no energy counter.
  virtual Result<EnergyUse> MeasureEnergy(size_t entrant, double seconds) = 0;
  /// What replays did that they must not: wrote beside buffers, to inputs or to the clock's own.
  virtual Result<std::vector<Finding>> Finish() = 0;
};

/// How a GPU does at this moment.
struct GpuState {
  int sm_mhz = 0, memory_mhz = 0, temperature_c = 0;
  double power_w = 0;
  std::vector<std::string> throttled_by;  // "power cap", "thermal slowdown", …
  int processes = 0;                      // with a context on the same GPU, ours included
};

Json ToJson(const GpuState& state);

/// Kernels that other processes run to be timed by the same clock.
struct ClockKernels {
  std::string flush_ptx, flush_entry;
  uint32_t flush_grid = 0, flush_block = 0;
  uint64_t flush_bytes = 0;
  std::string probe_ptx, probe_entry;
  uint32_t probe_grid = 0, probe_block = 0, probe_iterations = 0;
};

}  // namespace cupel::engine
