// Baselines: PyTorch's own answers to a task (eager, torch.compile), timed on the GPU by the
// protocol of cupel's GPU worker: a CUDA graph of [flush of L2][event][the call][event], one replay
// a sample. A Python child of its own (baseline.py) holds the GPU's context; it draws inputs as the
// oracle does. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "oracle/oracle.h"
#include "task/task.h"

namespace cupel::oracle {

/// kProbe is no answer of PyTorch's: a kernel of cupel's own, whose time shows that both clocks
/// agree.
enum class BaselineKind { kEager, kCompile, kMaxAutotune, kProbe };
const char* Name(BaselineKind kind);  // "eager", "compile", "max-autotune", "probe"

/// The kernels of the worker's clock, as PTX. The flush's parameters are (u64 data, u64 bytes,
/// u64 result_word), the probe's (u64 out, u32 iterations), where out has 8 bytes for each thread.
struct ClockKernels {
  std::string flush_ptx, flush_entry, probe_ptx, probe_entry;
  uint64_t flush_bytes = 0;
  uint32_t flush_grid = 1056, flush_block = 256;
  uint32_t probe_grid = 1, probe_block = 1, probe_iterations = 1;
};

struct BaselineOptions {
  std::filesystem::path script;  // baseline.py
  std::string python;            // as Options::python
  std::filesystem::path cache;   // where the search for a Python is remembered; may be empty
  int ordinal = 0;               // of the GPU, as the CUDA driver counts
  /// As TruthGpu::lock: taken, shared, while calls are prepared; Take() leaves it alone, so who
  /// takes samples has to hold it. Empty: there is nobody to share with.
  std::filesystem::path lock;
  ClockKernels kernels;
  /// Without a sign of life from the child. 0: $CUPEL_ORACLE_SECONDS, else 600 s.
  std::chrono::seconds step_deadline{0};
  int threads = 0;  // as Options::threads
  std::function<void(const std::string&)> progress;
};

/// How an output of what is timed compares with what eager PyTorch computes in float32.
struct BaselineOutput {
  std::string name;
  bool is_none = false;
  double difference = 0;  // the largest; infinity when one has a NaN where the other has not
  double largest = 0;     // finite element of eager's
};

struct BaselineInfo {
  std::string name;  // what Take and Drop go by
  BaselineKind kind = BaselineKind::kEager;
  std::string torch_version, gpu;
  std::string how;      // "graph", or "stream" where the call cannot be captured, because of `why`
  std::string why;      // Times of a stream include waiting for launches.
  bool tf32 = false;    // whether it was allowed all the same: the task's code can allow it
  int sets = 0;         // of inputs; as many as a third of the GPU's free memory holds
  std::string fewer;    // why not as many as asked for
  int64_t kernels = 0;  // of one call; 0: not known
  double flops = 0;     // of the products and convolutions of one call; 0: none, or not known
  std::vector<BaselineOutput> outputs;
  double seconds = 0;  // of preparing, compilation included
};

/// Not thread-safe.
class Baselines {
 public:
  /// Starts PyTorch and has it open the GPU. Errors: no PyTorch (kEnvironment); one that cannot use
  /// this GPU (kUnsupported).
  static Result<std::unique_ptr<Baselines>> Start(BaselineOptions options);
  ~Baselines();

  const std::string& torch_version() const;
  const std::string& gpu() const;

  /// `seeds` are those of cases (Case::seed), which give the same inputs here. For kProbe only the
  /// kind counts. What the task's code or PyTorch's compiler does wrong is a SettingFailure.
  /// Errors: a child that died, kTimeout, kCancelled; another call starts another child, which
  /// knows nothing of earlier names.
  Result<std::variant<BaselineInfo, SettingFailure>> Prepare(const task::Task& task,
                                                             task::Direction direction,
                                                             const task::Setting& setting,
                                                             BaselineKind kind,
                                                             std::span<const uint64_t> seeds);

  enum class Mode {
    kCold,  // device time, L2 flushed before
    kWarm,  // device time, straight after another replay
    kHost,  // wall time of a Python call and the wait for it
  };
  /// `count` samples, in microseconds, on set number `set`.
  Result<std::vector<double>> Take(const std::string& name, Mode mode, int set, int count);
  Status Drop(const std::string& name);

 private:
  struct Impl;
  explicit Baselines(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};
const char* Name(Baselines::Mode mode);  // "cold", "warm", "host"

}  // namespace cupel::oracle
