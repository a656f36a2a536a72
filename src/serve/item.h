// The work items of a worker pool, and their outcomes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace cupel::serve {

/// A kernel's times at one setting.
struct Timed {
  std::string setting;  // its id
  Json bench;           // cupel.bench/1 of only that setting, without the kernel's verdict
  double seconds = 0;   // that the worker needed
};

/// The verdict on a kernel, and its times so far.
struct Judgement {
  Json verdict;        // cupel.verdict/1; null: none
  std::string device;  // on which it was judged, as its worker names it: Ready::device
  std::string cases;   // as in Outcome
  double seconds = 0;
  std::vector<Timed> timed;  // the settings that have been timed
};

/// One piece of work: judge a kernel for a task, and time it if the worker has a clock. Paths are
/// the coordinator's. File contents are sent, so a worker on another machine needs no paths.
struct Item {
  std::string id;                  // unique within a run; comes back with the outcome
  std::filesystem::path kernel;    // the path used in messages and records
  std::string source_sha256;       // required hash of `kernel`; empty: any
  std::vector<std::string> flags;  // for nvcc, before those that all items share
  std::string task;                // a name under the tasks' root, a folder, or a .py file
  std::string task_sha256;         // required task::QuestionHash of the task; empty: any
  bool backward = false;
  std::string settings = "all";  // single, multi, heldout, all
  int trials = 5;
  std::optional<uint64_t> seed;
  /// As `cupel check` does, also run the checks beyond the tolerance: exact arithmetic, small
  /// integers, other inputs.
  bool thorough = true;
  bool explores = true;    // and at sizes that no setting has, if all settings are judged
  bool full_size = false;  // full sizes on the emulator too, even if the task has smaller ones
  bool timed = true;       // if the worker has a clock
  bool baselines = true;   // time PyTorch too, if the worker has PyTorch on its GPU
  bool energy = false;     // measure the energy of a call, too
  int rounds = 400;        // largest number of replays of each
  /// Set if the kernel was judged before and only times are missing. It is judged again if no
  /// worker with that device can confirm the verdict (judge::IsStillValid).
  Judgement judged;
};

struct Outcome {
  std::string item;    // its id
  Json verdict;        // cupel.verdict/1; null when `error` is set
  Json bench;          // cupel.bench/1; null if nothing was timed
  std::string worker;  // that judged it or continued its timing: "local 0", "node3 1"; for display
  double seconds = 0;  // of all workers that judged or timed it, for this verdict
  std::string cases;   // whose PyTorch computed the cases: "worker" or "coordinator"
  std::string error, remedy;  // cupel's own failure for this item, as a task that does not load
};

}  // namespace cupel::serve
