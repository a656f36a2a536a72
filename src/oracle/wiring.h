// Finds how a task's functions are called, so that an operator can replace them. Asks wiring.py, a
// child with the user's PyTorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <stop_token>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "task/task.h"

namespace cupel::oracle {

struct WiringOptions {
  std::filesystem::path script;  // wiring.py
  std::string python;            // as in oracle::Options
  std::filesystem::path memory;  // as in FindPython
  std::stop_token stop;          // ends the child
};

/// The settings of one direction to examine.
struct WiringQuestion {
  task::Direction direction = task::Direction::kForward;
  std::vector<const task::Setting*> settings;
};

/// {"forward": {...}, "backward": {...}} as wiring.py documents them. A part that failed has a
/// "failure". Errors: kEnvironment without PyTorch, kIo if the child fails.
Result<Json> LookAtWiring(const task::Task& task, std::span<const WiringQuestion> questions,
                          const WiringOptions& options);

}  // namespace cupel::oracle
