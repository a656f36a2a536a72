// What a crew does, and what comes of it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace cupel::serve {

/// One thing to do: a kernel judged (and timed, where the worker has a clock) for a task. Paths are
/// the coordinator's; contents are sent, so that a worker on another machine needs none of them.
struct Item {
  std::string id;                  // unique within a run; comes back with the outcome
  std::filesystem::path kernel;    // as messages and records name it
  std::filesystem::path source;    // the .cu file of an answer in Python; empty: `kernel` is one
  std::vector<std::string> flags;  // for nvcc, before those that all items share
  std::string task;                // a name under the tasks' root, a folder, or a .py file
  bool backward = false;
  std::string settings = "all";  // single, multi, heldout, all
  int trials = 5;
  std::optional<uint64_t> seed;
  /// Also beyond the tolerance, as `cupel check` does: exact arithmetic, small integers, other
  /// inputs.
  bool thorough = true;
  bool full_size = false;  // on the emulator too, where the task names smaller sizes for it
  bool timed = true;       // where the worker has a clock
  bool baselines = true;   // and PyTorch beside it, where the worker has PyTorch on its GPU
  /// What was found when it was judged before (cupel.verdict/1), where its time alone is wanted
  /// still; else null. A worker to which that says nothing judges anew: see judge::StillStands.
  Json verdict;
  double verdict_seconds = 0;  // that it took
};

struct Outcome {
  std::string item;           // its id
  Json verdict;               // cupel.verdict/1; null when `error` is set
  Json bench;                 // cupel.bench/1; null where nothing was timed
  std::string worker;         // "local 0", "node3 1": for people
  double seconds = 0;         // of the worker, with an earlier one's for the same verdict
  std::string cases;          // "worker": of its own PyTorch; "coordinator"
  std::string error, remedy;  // cupel's own failure for this item: the task does not load …
};

}  // namespace cupel::serve
