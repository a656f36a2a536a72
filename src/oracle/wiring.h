// How a task's functions are called, for an operator that stands in for them: asks wiring.py, a
// child beside the user's PyTorch. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "task/task.h"

namespace cupel::oracle {

struct WiringOptions {
  std::filesystem::path script;  // wiring.py
  std::string python;            // as in oracle::Options
  std::filesystem::path memory;  // of FindPython
};

/// One direction's settings to look at.
struct WiringQuestion {
  task::Direction direction = task::Direction::kForward;
  std::vector<const task::Setting*> settings;
};

/// {"forward": {...}, "backward": {...}} as wiring.py describes them; a part that failed has
/// "failure". Errors: kEnvironment without PyTorch, kIo when the child fails.
Result<Json> LookAtWiring(const task::Task& task, std::span<const WiringQuestion> questions,
                          const WiringOptions& options);

}  // namespace cupel::oracle
