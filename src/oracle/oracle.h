// The oracle: a long-lived Python child beside the user's PyTorch that alone runs task code and
// turns it into cases; and the pool of cases on disk, so that most checks need no PyTorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "task/case.h"
#include "task/distribution.h"
#include "task/task.h"

namespace cupel::oracle {

/// A GPU that may compute the truth of large cases (float64_place.py).
struct TruthGpu {
  int ordinal = 0;
  std::filesystem::path lock;  // file that says whether the GPU may be used (gpu/gpu_lock.h)
};

struct Options {
  std::filesystem::path script;  // oracle.py
  std::string python;           // empty: $CUPEL_PYTHON, then python3 on PATH, then /usr/bin/python3
  std::filesystem::path cache;  // folder of the case pool; empty switches it off
  uint64_t cache_bytes = 4ull << 30;  // bound of the pool, least recently used first
  std::optional<TruthGpu> gpu;        // none: PyTorch's CPU computes everything
  /// How long a step of the task's reference may take (a draw; the child reports each). 0:
  /// $CUPEL_ORACLE_SECONDS, else 600 s.
  std::chrono::seconds step_deadline{0};
  std::function<void(const std::string&)> progress;  // "starting PyTorch", "computing truth …"
  int threads = 0;  // of PyTorch on the CPU, where others need some; 0: one for each core
};

/// Why a setting yields no case: the reference itself fails. Data about the task.
struct SettingFailure {
  std::string message;        // the last line of Python's error, and the remedy where one is known
  bool inapplicable = false;  // nothing is wrong: there is no case of this distribution, and why
  bool killed = false;  // PyTorch was, from outside: by a system that is out of memory, most likely
};

using task::Distribution;

using CaseOutcome = std::variant<task::Case, SettingFailure>;

/// Where cases come from: PyTorch beside this process (TorchOracle), or another process that asks
/// its own (serve/remote_oracle.h). Not thread-safe.
class Oracle {
 public:
  virtual ~Oracle() = default;

  /// `count` distinct cases of a setting. Without `seed`: from the secret pool (system entropy,
  /// each case used a bounded number of times). With `seed`: the same cases every time. `fresh`
  /// never takes from the pool. Errors: PyTorch missing (kEnvironment, with what to install), task
  /// code that does not load.
  Result<std::vector<CaseOutcome>> Cases(const task::Task& task, task::Direction direction,
                                         const task::Setting& setting, int count,
                                         std::optional<uint64_t> seed, bool fresh = false);

  /// Cases one at a time, so that large ones need not be held together: begins computing in the
  /// child, which goes on while the caller judges; Next() hands them over in order. A stream must
  /// not outlive its Oracle.
  class Stream {
   public:
    virtual ~Stream() = default;
    /// The next case, or nullopt after the last. A SettingFailure is the last.
    virtual Result<std::optional<CaseOutcome>> Next() = 0;
  };
  virtual Result<std::unique_ptr<Stream>> Open(const task::Task& task, task::Direction direction,
                                               const task::Setting& setting, int count,
                                               std::optional<uint64_t> seed, bool fresh,
                                               Distribution distribution) = 0;
  Result<std::unique_ptr<Stream>> Open(const task::Task& task, task::Direction direction,
                                       const task::Setting& setting, int count,
                                       std::optional<uint64_t> seed, bool fresh = false) {
    return Open(task, direction, setting, count, seed, fresh, Distribution::kUsual);
  }

  /// The cases of exactly these seeds, which a verdict lists (Case::seed), in their order.
  virtual Result<std::unique_ptr<Stream>> OpenSeeds(const task::Task& task,
                                                    task::Direction direction,
                                                    const task::Setting& setting,
                                                    const std::vector<uint64_t>& seeds,
                                                    Distribution distribution) = 0;
  Result<std::unique_ptr<Stream>> OpenSeeds(const task::Task& task, task::Direction direction,
                                            const task::Setting& setting,
                                            const std::vector<uint64_t>& seeds) {
    return OpenSeeds(task, direction, setting, seeds, Distribution::kUsual);
  }

  /// Warnings about the task that were met (dropped config keys …), once each.
  virtual const std::vector<std::string>& warnings() const = 0;
};

/// PyTorch in a child of this process.
class TorchOracle final : public Oracle {
 public:
  explicit TorchOracle(Options options);
  ~TorchOracle() override;

  using Oracle::Open;
  using Oracle::OpenSeeds;
  Result<std::unique_ptr<Stream>> Open(const task::Task& task, task::Direction direction,
                                       const task::Setting& setting, int count,
                                       std::optional<uint64_t> seed, bool fresh,
                                       Distribution distribution) override;
  Result<std::unique_ptr<Stream>> OpenSeeds(const task::Task& task, task::Direction direction,
                                            const task::Setting& setting,
                                            const std::vector<uint64_t>& seeds,
                                            Distribution distribution) override;
  const std::vector<std::string>& warnings() const override;

 private:
  struct Impl;
  struct Slots;
  Result<std::unique_ptr<Stream>> Start(const task::Task& task, task::Direction direction,
                                        const task::Setting& setting, Distribution distribution,
                                        const Slots& slots);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cupel::oracle
