// What a person should know about a launch's counts: which bound dominates and what that means,
// and the lines that cause it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"

namespace cupel::judge {

/// About one line; or, without a file, about the launch.
struct Remark {
  std::string code;  // stable: "bottleneck", "unused_sectors", "bank_conflicts", …
  std::string file;
  int line = 0;
  std::string message;
  double weight = 0;  // of the estimate, roughly: what remarks are sorted by
};

/// "memory bandwidth", for the bound "dram"; and what to think of it.
struct BoundText {
  const char* name;
  const char* meaning;
};
BoundText Describe(const std::string& bound);

/// Where the slowest bound's work is done: at most three lines.
std::vector<Remark> WhereTheBoundIs(const engine::LaunchCounters& launch);

/// What wastes work, the most first; at most `most`.
std::vector<Remark> Wastes(const engine::LaunchCounters& launch, size_t most = 8);

}  // namespace cupel::judge
