// The oracle turns tasks into cases. Only its long-lived Python child, with the user's PyTorch,
// runs task code. It also keeps a pool of cases on disk, so that most checks need no PyTorch.
//
// This folder has the clients of all Python children that run a task's code, and the caches of
// their answers. Other children time PyTorch's own answers (baseline.h), measure the quality of
// tasks (filter.h), import problems (importer.h), and find how a task's functions are called
// (wiring.h). Replies are validated like all text from outside. The children are in py/, which
// oracle.py describes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
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
  std::filesystem::path lock;  // file lock that shares the GPU (gpu/gpu_lock.h)
};

struct Options {
  std::filesystem::path script;  // oracle.py
  std::string python;           // empty: $CUPEL_PYTHON, then python3 on PATH, then /usr/bin/python3
  std::filesystem::path cache;  // folder of the case pool; empty: no pool
  uint64_t cache_bytes = 4ull << 30;  // limit of the pool; the least recently used cases go first
  std::optional<TruthGpu> gpu;        // none: PyTorch computes everything on the CPU
  /// Time limit of one step of the task's reference, such as a draw (the child reports each step).
  /// 0: $CUPEL_ORACLE_SECONDS, else 600 s.
  std::chrono::seconds step_deadline{0};
  std::function<void(const std::string&)> progress;  // "starting PyTorch", "computing truth …"
  int threads = 0;       // PyTorch's CPU threads, if others need some cores; 0: one for each core
  std::stop_token stop;  // requests then end with kCancelled
};

/// Why a setting has no case, usually because the reference fails. This is a fact about the task,
/// not an error of cupel.
struct SettingFailure {
  std::string message;        // the last line of Python's error, and the remedy if one is known
  bool inapplicable = false;  // not a fault: the distribution does not apply to this setting
  bool killed = false;        // something killed PyTorch: most likely the system ran out of memory
  bool gpu_failed = false;    // PyTorch's process could not use the GPU any more; the CPU is next
};

using task::Distribution;

using CaseOutcome = std::variant<task::Case, SettingFailure>;
/// The number of fields, as engine::FieldPrimes, and of moduli: p and q of each.
inline constexpr size_t kFields = 4, kModuli = 2 * kFields;

/// A reference computed in finite fields (oracle/py/field_reference.py).
struct FieldResults {
  /// Why there are none: an operator without a rule. Empty otherwise.
  std::string not_covered;
  /// Of each output, the elements' residues modulo each p, then modulo each q. No value: it has no
  /// elements.
  using Residues = std::array<std::vector<uint32_t>, kModuli>;
  std::vector<std::optional<Residues>> outputs;
  /// Of arguments that are results of the forward function, in the order of their storages.
  std::vector<std::pair<int, Residues>> arguments;
  /// Functions that are known only by their arguments ("log"): laws may be missing.
  std::vector<std::string> functions;
  struct Number {
    double value = 0;
    std::array<uint32_t, kModuli> residues = {};  // as of outputs
  };
  /// The numbers that the reference computes with.
  std::vector<Number> numbers;
};

using ShapeOutcome = std::variant<task::CallShape, SettingFailure>;

/// The source of cases: a PyTorch child (TorchOracle), or another process with its own oracle
/// (serve/remote_oracle.h). Not thread-safe.
class Oracle {
 public:
  virtual ~Oracle() = default;

  /// Returns `count` distinct cases of a setting. Without `seed`, they come from the secret pool
  /// (system entropy; each case is used a limited number of times). With `seed`, they are the same
  /// every time. With `fresh`, the pool is not used. Errors: PyTorch is missing (kEnvironment, with
  /// what to install); the task's code does not load.
  Result<std::vector<CaseOutcome>> Cases(const task::Task& task, task::Direction direction,
                                         const task::Setting& setting, int count,
                                         std::optional<uint64_t> seed, bool fresh = false);

  /// Returns cases one at a time and in order, so that large cases need not be in memory together.
  /// The child computes the next case while the caller judges. A stream must not outlive its
  /// Oracle.
  class Stream {
   public:
    virtual ~Stream() = default;
    /// Returns the next case, or nullopt after the last. The stream ends after a SettingFailure.
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

  /// Streams the cases of exactly these seeds (Case::seed, as a verdict lists them), in this order.
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

  /// The arguments of a call at each of `settings`, without data, so sizes may be larger than any
  /// memory. A setting that the task's own reference does not accept is a SettingFailure. The
  /// results borrow memory of the oracle. Errors: as Cases(); kUnsupported if this oracle cannot
  /// tell.
  virtual Result<std::vector<ShapeOutcome>> Shapes(const task::Task& task,
                                                   task::Direction direction,
                                                   const std::vector<task::Setting>& settings);

  /// The results of the call of seed `seed` of a distribution, whose arguments are random elements
  /// of finite fields (docs/proof.md). Errors: as Cases(); kUnsupported if this oracle cannot tell.
  virtual Result<std::variant<FieldResults, SettingFailure>> Elements(
      const task::Task& task, task::Direction direction, const task::Setting& setting,
      Distribution distribution, uint64_t seed, uint64_t field_seed);

  /// Warnings about tasks so far (such as dropped config keys), each listed once.
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
  Result<std::vector<ShapeOutcome>> Shapes(const task::Task& task, task::Direction direction,
                                           const std::vector<task::Setting>& settings) override;
  Result<std::variant<FieldResults, SettingFailure>> Elements(
      const task::Task& task, task::Direction direction, const task::Setting& setting,
      Distribution distribution, uint64_t seed, uint64_t field_seed) override;
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
