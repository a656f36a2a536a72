// The worker pool: worker processes, on this machine or others, that judge and time items. The pool
// starts them by command prefixes (srun, ssh; none: workers on this machine). It uses the protocol
// "cupel.worker/1" (docs/formats/worker.md), and returns one outcome for each item.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/events.h"
#include "base/result.h"
#include "oracle/oracle.h"
#include "serve/item.h"

namespace cupel::serve {

/// How workers judge. The same for all workers of a pool, except `device` and `threads`.
struct Setup {
  std::string device = "auto";   // as --device; with gpu:all each local worker gets its own GPU
  std::string model = "h100";    // the GPU model that the emulator describes
  std::string engines = "both";  // as --engines
  std::string arch = "sm_90";
  std::vector<std::string> flags;
  std::vector<std::filesystem::path> include_roots;  // the same paths on every machine
  int compile_seconds = 300;                         // limit of a compilation
  bool allow_weak_sandbox = false;
  std::string python;  // a Python with PyTorch; empty: the worker finds one
  /// Whose PyTorch computes cases: "worker", "coordinator", or "auto": the worker's if it has one.
  std::string cases = "auto";
  int threads = 0;  // of the emulator or, on a GPU worker, of PyTorch on the CPU; 0: one per core
};

struct WorkerPoolOptions {
  /// Each starts one worker: "srun -n1 --gpus=1 cupel worker". Split into words without a shell;
  /// quotes and backslashes work. Empty: workers of this program, on this machine.
  std::vector<std::string> commands;
  /// How many workers for each command; 0: one. For local workers 0 means one for each GPU with
  /// gpu:all, one with a single GPU, otherwise one for every two cores.
  int workers = 0;
  Setup setup;
  std::filesystem::path tasks_root;  // folder in which plain task names are looked up
  /// Makes the oracle that computes cases for workers without PyTorch. Called on the first request.
  /// Empty: this machine's PyTorch.
  std::function<Result<std::unique_ptr<oracle::Oracle>>()> make_oracle;
  /// Receives what the workers are doing, and remarks: a worker's standard error, why a worker was
  /// replaced. Called on the thread of Run and of the destructor. Null: dropped.
  Events* events = nullptr;
  std::stop_token stop;  // Run then ends with kCancelled

  int most_attempts = 3;                       // at an item, or at timing it at one setting
  int most_failed_starts = 4;                  // of a worker in a row, with growing pauses between
  std::chrono::milliseconds patience{60'000};  // longest silence of a worker before it is replaced
  std::chrono::milliseconds item_limit{3'600'000};  // for one item
  /// From asking a worker to end to SIGTERM, and again from SIGTERM to SIGKILL.
  std::chrono::milliseconds stop_timeout{4'000};
  std::chrono::milliseconds first_pause{1'000};  // before a worker is restarted
};

/// Callbacks of WorkerPool::Run. Only `done` is required.
struct Listener {
  /// Called once for each item, in any order.
  std::function<void(Outcome)> done;
  /// A worker has judged the item, which will now be timed.
  std::function<void(const std::string& item, const Judgement&)> judged;
  /// The item's verdict and times are discarded, and the item is judged again.
  std::function<void(const std::string& item)> withdrawn;
  /// A worker has timed the item at one setting.
  std::function<void(const std::string& item, const Timed&)> timed;
};

/// Not thread-safe.
class WorkerPool {
 public:
  /// Starts the workers. Errors: a command cannot be split or its program not found.
  static Result<std::unique_ptr<WorkerPool>> Start(WorkerPoolOptions options);
  /// Asks all workers to end, then sends signals. Returns when no worker process runs here.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// The largest number of workers that run at the same time.
  size_t size() const;

  /// Judges and times all items. The worker that judged an item also times it, one setting at a
  /// time. Workers with nothing to judge help, but only one worker of each GPU times an item at
  /// once. Work that a lost worker did not finish is retried, up to `most_attempts` times. Errors:
  /// kCancelled; no worker can be started. The other items then have no outcome. May be called
  /// again.
  Status Run(std::span<const Item> items, const Listener& listener);

 private:
  struct Impl;
  explicit WorkerPool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cupel::serve
