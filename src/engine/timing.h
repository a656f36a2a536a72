// The interface for measuring time: timed replays of plans, one at a time, so that the caller can
// interleave several plans and decide when to stop. docs/measuring.md describes the protocol.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/run.h"
#include "records/gpu_state.h"

namespace cupel::engine {

class Program;

enum class TimingMode {
  kCold,  // the L2 contains nothing of the plan; workspaces and outputs are poisoned, variables
          // reset
  kWarm,  // directly after another replay on the same buffers
  kOperators,  // PyTorch's operators alone, after a warm replay of everything
  kHost,       // wall time of launching one by one and waiting, as C++ code would do
};

/// One of the programs that are timed on the same inputs. Borrows everything.
struct Entrant {
  Program* program = nullptr;
  /// One plan for all sets of arguments, or one per set: a plan may depend on one-element tensors.
  std::vector<const plan::Plan*> plans;
};

/// Bytes of an argument that are replaced during a replay.
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
  /// Time between two events, including the overhead of recording and launching
  /// (Timer::MeasureOverhead); wall time in host mode.
  std::vector<double> us;
  std::vector<OutputTensor> outputs;
  std::vector<records::Finding> findings;  // if not empty, nothing was timed
  std::string unsupported;                 // what the engine cannot replay
};

/// Not thread-safe. Borrows programs, plans and arguments.
class Timer {
 public:
  virtual ~Timer() = default;
  /// The number of input sets held: at least one, fewer than given if memory is short.
  virtual int Sets() const = 0;
  virtual Result<Taken> Take(const TakeRequest& request) = 0;
  /// One sample of the clock's own overhead in microseconds: an empty kernel after a flush, minus
  /// the time that CUPTI reports for such a kernel.
  virtual Result<double> MeasureOverhead() = 0;
  /// Of a warm call, without what happens between calls: half of about twice `seconds` of replays
  /// measures that alone. Fails with kUnsupported if the GPU has no energy counter.
  virtual Result<records::EnergyUse> MeasureEnergy(size_t entrant, double seconds) = 0;
  /// Reports forbidden writes of replays: next to buffers, to inputs, or to the clock's own memory.
  virtual Result<std::vector<records::Finding>> Finish() = 0;
};

/// Kernels that other processes run, so that their times use the same clock.
struct ClockKernels {
  std::string flush_ptx, flush_entry;
  uint32_t flush_grid = 0, flush_block = 0;
  uint64_t flush_bytes = 0;
  std::string probe_ptx, probe_entry;
  uint32_t probe_grid = 0, probe_block = 0, probe_iterations = 0;
};

}  // namespace cupel::engine
