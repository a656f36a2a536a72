// Finds the constants that a tuner may change in a kernel's source, and writes variants. A tunable
// is an integer constant of the source:
//   constexpr int kTile = 16;            // tune: kTile in 8, 16, 32     (explicit choices)
//   #define BLOCK 256                    (implicit: the power of two and its neighbours)
//   __launch_bounds__(256), dim3 block(16, 16), const int threads = 128;  (also implicit)
// Only the digits of the constant are rewritten, so a variant differs from its parent nowhere else.
// The judge decides whether a variant is correct.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::evolve {

struct Tunable {
  std::string name;              // "kTile"; "__launch_bounds__#1" for unnamed places
  int64_t value = 0;             // in the source
  std::vector<int64_t> choices;  // ascending, includes `value`
  size_t begin = 0, end = 0;     // bytes of the literal
  int line = 0;
  bool explicit_choices = false;  // from a "// tune:" comment
};

/// name -> value; only those that differ from the source need be present.
using Assignment = std::map<std::string, int64_t>;

/// Tunables in the order of the source. If the source has "// tune:" comments, only the constants
/// they name are tunables. Error: a tune comment names no constant of the file, or has no choices.
Result<std::vector<Tunable>> FindTunables(std::string_view source);

/// The source with the values of `assignment`. Error: a name is not a tunable.
Result<std::string> Rewrite(std::string_view source, const std::vector<Tunable>& tunables,
                            const Assignment& assignment);

/// "kTile=32 kThreads=256", for messages and as a key. Empty for the unchanged source.
std::string Describe(const Assignment& assignment);

}  // namespace cupel::evolve
