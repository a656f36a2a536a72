// Baselines: PyTorch's own implementations of a task (eager, torch.compile), timed on the GPU with
// the protocol of cupel's GPU worker: a CUDA graph of [flush of L2][event][the call][event], one
// replay per sample. A separate Python child (baseline.py) owns the GPU context. It draws inputs as
// the oracle does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "oracle/oracle.h"
#include "task/task.h"

namespace cupel::oracle {

/// kNamed is an implementation other than the task's own (task/named_baseline.h). kProbe is not a
/// PyTorch baseline but a kernel of cupel. Its time shows whether both clocks agree.
enum class BaselineKind { kEager, kCompile, kMaxAutotune, kNamed, kProbe };
const char* Name(BaselineKind kind);  // "eager", "compile", "max-autotune", "named", "probe"

/// What to time.
struct Baseline {
  BaselineKind kind = BaselineKind::kEager;
  task::NamedBaseline named = {};  // of kNamed

  /// For tables: a named one's own name, or that of the kind.
  std::string Name() const;
};

/// Eager, compiled, and all that the task names.
std::vector<Baseline> UsualBaselines(const task::Task& task);

/// The kernels of the worker's clock, as PTX. The flush's parameters are (u64 data, u64 bytes,
/// u64 result_word), the probe's (u64 out, u32 iterations). `out` has 8 bytes per thread.
struct ClockKernels {
  std::string flush_ptx, flush_entry, probe_ptx, probe_entry;
  uint64_t flush_bytes = 0;
  uint32_t flush_grid = 1056, flush_block = 256;
  uint32_t probe_grid = 1, probe_block = 1, probe_iterations = 1;
};

struct BaselineOptions {
  std::filesystem::path script;  // baseline.py
  std::string python;            // as Options::python
  std::filesystem::path cache;   // folder that caches the search for Python; may be empty
  int ordinal = 0;               // of the GPU, in the CUDA driver's numbering
  /// As TruthGpu::lock. Held in shared mode while calls are prepared. Take() does not lock it: the
  /// caller must hold the lock while it takes samples. Empty: the GPU is not shared.
  std::filesystem::path lock;
  ClockKernels kernels;
  /// Time limit without progress of the child. 0: $CUPEL_ORACLE_SECONDS, else 600 s.
  std::chrono::seconds step_deadline{0};
  int threads = 0;  // as Options::threads
  std::function<void(const std::string&)> progress;
  std::stop_token stop;  // requests then end with kCancelled
};

/// Compares an output of the timed call with eager PyTorch's float32 result.
struct BaselineOutput {
  std::string name;
  bool is_none = false;
  double difference = 0;  // the largest; infinity if only one of them is NaN at some place
  double largest = 0;     // the largest finite magnitude in eager's result
  double rms_share = 0;   // the RMS of the difference over that of eager's result; may be infinite
  /// Of integers: the share of elements that differ.
  std::optional<double> differing = {};
};

struct BaselineInfo {
  std::string name;  // the argument of Take and Drop
  Baseline baseline;
  std::string torch_version, gpu;
  std::string libraries;  // of kNamed: with versions ("liger-kernel 0.8.5"); may be empty
  std::string how;        // "graph", or "stream" if the call cannot be captured
  std::string why;        // why not "graph"; "stream" times include waiting for launches
  bool tf32 = false;      // whether TF32 was allowed (the task's code can allow it)
  int sets = 0;           // of inputs: as many as fit into a third of the GPU's free memory
  std::string fewer;      // why there are fewer sets than requested
  int64_t kernels = 0;    // of one call; 0: not known
  double flops = 0;       // of the products and convolutions of one call; 0: none, or not known
  std::vector<BaselineOutput> outputs;
  double seconds = 0;  // to prepare, including compilation
};

/// Of one call with a warm L2: the mean over `calls`.
struct BaselineEnergy {
  double joules = 0, watts = 0;
  int64_t calls = 0;
};

/// Not thread-safe.
class Baselines {
 public:
  /// Starts PyTorch and opens the GPU. Errors: no PyTorch (kEnvironment); PyTorch cannot use this
  /// GPU (kUnsupported).
  static Result<std::unique_ptr<Baselines>> Start(BaselineOptions options);
  ~Baselines();

  const std::string& torch_version() const;
  const std::string& gpu() const;

  /// `seeds` are case seeds (Case::seed) and give the same inputs as those cases. For kProbe, only
  /// the kind is used. A failure of the task's code, of a named baseline or of PyTorch's compiler
  /// is a SettingFailure. Errors: the child died, kTimeout, kCancelled. The next call then starts
  /// another child, in which earlier names are unknown.
  Result<std::variant<BaselineInfo, SettingFailure>> Prepare(const task::Task& task,
                                                             task::Direction direction,
                                                             const task::Setting& setting,
                                                             const Baseline& baseline,
                                                             std::span<const uint64_t> seeds);

  enum class Mode {
    kCold,  // device time, after a flush of L2
    kWarm,  // device time, right after another replay
    kHost,  // wall time of a Python call until it has finished
  };
  /// Takes `count` samples, in microseconds, on input set number `set`.
  Result<std::vector<double>> Take(const std::string& name, Mode mode, int set, int count);
  /// Replays for about `seconds`. kUnsupported if calls cannot be captured or change their
  /// arguments, or if the GPU has no energy counter.
  Result<BaselineEnergy> MeasureEnergy(const std::string& name, double seconds);
  Status Drop(const std::string& name);

 private:
  struct Impl;
  explicit Baselines(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};
const char* Name(Baselines::Mode mode);  // "cold", "warm", "host"

}  // namespace cupel::oracle
