// The crew: worker processes, here or on other machines, that judge and time what they are given.
// A crew is started by command prefixes (srun, ssh, or nothing for workers on this machine), speaks
// "cupel.worker/1" with each worker (docs/formats/worker.md), gives every item to one of them and
// takes back one outcome. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "oracle/oracle.h"
#include "serve/item.h"

namespace cupel::serve {

/// How workers judge; the same for all of a crew.
struct Setup {
  std::string device = "auto";  // as --device; with gpu:all each worker here has a GPU of its own
  std::string model = "h100";   // that the emulator describes
  std::string arch = "sm_90";
  std::vector<std::string> flags;
  std::vector<std::filesystem::path> include_roots;  // the same paths on every machine
  bool allow_weak_sandbox = false;
  std::string python;          // that has PyTorch; empty: what the worker finds
  std::string cases = "auto";  // "worker": its own PyTorch; "coordinator"; "auto": its own if any
  int threads = 0;  // of the emulator or, beside a GPU, of PyTorch on the CPU; 0: one for each core
};

struct CrewOptions {
  /// Each starts one worker: "srun -n1 --gpus=1 cupel worker", split without a shell (quotes and
  /// backslashes are understood). Empty: workers of this program, on this machine.
  std::vector<std::string> commands;
  /// How many of each command; 0: one. On this machine 0 is one for each GPU of gpu:all, one for a
  /// GPU, else one for each two cores.
  int workers = 0;
  Setup setup;
  std::filesystem::path tasks_root;  // where plain task names are looked up
  /// Makes the oracle that answers workers without PyTorch; called when the first of them asks.
  /// Empty: this machine's PyTorch.
  std::function<Result<std::unique_ptr<oracle::Oracle>>()> make_oracle;
  /// What a person should know, a line each: a worker's standard error, why one was replaced.
  /// Called from Run's and the destructor's thread. Empty: nobody is told.
  std::function<void(const std::string&)> note;

  int most_attempts = 3;                       // at an item that its workers do not survive
  int most_failed_starts = 4;                  // of a worker in a row, with growing pauses between
  std::chrono::milliseconds patience{60'000};  // without a sign of life
  std::chrono::milliseconds item_limit{3'600'000};  // for one item
  std::chrono::milliseconds farewell{4'000};        // of an end, before SIGTERM; then to SIGKILL
  std::chrono::milliseconds first_pause{1'000};     // before a worker is started again
};

/// Who hears of a crew's work while it runs; none but `done` is needed.
struct Listener {
  /// Once for each item, one at a time, in any order.
  std::function<void(Outcome)> done;
  /// A worker has judged the item, which is to be timed now.
  std::function<void(const std::string& item, const Judgement&)> judged;
  /// What was judged of the item does not stand, nor do its times: it is judged anew.
  std::function<void(const std::string& item)> withdrawn;
  /// A worker has timed it at one setting.
  std::function<void(const std::string& item, const Timed&)> timed;
  /// What a worker does now.
  std::function<void(size_t worker, const std::string& what)> progress;
};

/// Not thread-safe.
class Crew {
 public:
  /// Starts the workers. Errors: a command that cannot be split or
  /// found.
  static Result<std::unique_ptr<Crew>> Start(CrewOptions options);
  /// Ends all workers: politely, then by signals. Nothing of theirs is left running here.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// How many workers there are at most.
  size_t size() const;

  /// Does all items. Who has judged one times it, a setting at a time; whoever has nothing to judge
  /// helps, one worker of a GPU for each item. What a worker did not finish, since it died, is done
  /// again, a bounded number of times. Errors: kCancelled; no worker can be started (items without
  /// an outcome are then not done). May be called again.
  Status Run(std::span<const Item> items, const Listener& listener);

 private:
  struct Impl;
  explicit Crew(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cupel::serve
