// Explains a launch's counters: which bound dominates, what that means, and which lines cause it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"

namespace cupel::judge {

/// About one line or, if `file` is empty, about the whole launch.
struct Remark {
  std::string code;  // stable: "bottleneck", "unused_sectors", "bank_conflicts", …
  std::string file;
  int line = 0;
  std::string message;
  double weight = 0;  // rough share of the estimate; remarks are sorted by it
};

/// "memory bandwidth" for the bound "dram", and what to do about it.
struct BoundText {
  const char* name;
  const char* meaning;
};
BoundText Describe(const std::string& bound);

/// The lines that do most of the slowest bound's work: at most three.
std::vector<Remark> FindBottleneckLines(const records::LaunchCounters& launch);

/// What wastes work, most expensive first; at most `most` remarks.
std::vector<Remark> Wastes(const records::LaunchCounters& launch, size_t most = 8);

}  // namespace cupel::judge
