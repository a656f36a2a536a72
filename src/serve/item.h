// What a crew does, and what comes of it. SPDX-License-Identifier: Apache-2.0
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
  Json bench;           // cupel.bench/1 of that setting alone, without the kernel's verdict
  double seconds = 0;   // of the worker
};

/// What was found of a kernel that is not timed everywhere yet.
struct Judgement {
  Json verdict;        // cupel.verdict/1; null: none
  std::string device;  // that it was found on, as its worker names it: Ready::device
  std::string cases;   // as in Outcome
  double seconds = 0;
  std::vector<Timed> timed;  // where it is
};

/// One thing to do: a kernel judged (and timed, where the worker has a clock) for a task. Paths are
/// the coordinator's; contents are sent, so that a worker on another machine needs none of them.
struct Item {
  std::string id;                  // unique within a run; comes back with the outcome
  std::filesystem::path kernel;    // as messages and records name it
  std::filesystem::path source;    // the .cu file of an answer in Python; empty: `kernel` is one
  std::string source_sha256;       // that `kernel` must have; empty: any
  std::vector<std::string> flags;  // for nvcc, before those that all items share
  std::string task;                // a name under the tasks' root, a folder, or a .py file
  std::string task_sha256;         // task::QuestionHash that it must have; empty: any
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
  int rounds = 400;        // replays of each at most
  /// Where its time alone is wanted still. It is judged anew where no worker of that device holds
  /// it for true: judge::StillStands.
  Judgement judged;
};

struct Outcome {
  std::string item;    // its id
  Json verdict;        // cupel.verdict/1; null when `error` is set
  Json bench;          // cupel.bench/1; null where nothing was timed
  std::string worker;  // that judged it, or went on with it; "local 0", "node3 1": for people
  double seconds = 0;  // of all workers that judged or timed it, for this verdict
  std::string cases;   // "worker": of its own PyTorch; "coordinator"
  std::string error, remedy;  // cupel's own failure for this item: the task does not load …
};

}  // namespace cupel::serve
