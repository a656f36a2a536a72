// Finds the constants that a tuner may change in a kernel's source, and writes variants. A tunable
// is an integer constant that its author marked:
//   constexpr int kTile = 16;  // tune: kTile in 8, 16, 32
//   #define BLOCK 256          // tune: BLOCK in 128, 256, 512
// Other constants may be part of what the kernel computes (strides, sizes, padding), so they stay.
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
  std::string name;              // "kTile"
  int64_t value = 0;             // in the source
  std::vector<int64_t> choices;  // ascending, includes `value`
  size_t begin = 0, end = 0;     // bytes of the literal
  int line = 0;
};

/// name -> value; only those that differ from the source need be present.
using Assignment = std::map<std::string, int64_t>;

/// The constants that "// tune:" comments name, in the order of the source. Error: such a comment
/// names no constant of the file, or has no choices.
Result<std::vector<Tunable>> FindTunables(std::string_view source);

/// The source with the values of `assignment`. Error: a name is not a tunable.
Result<std::string> Rewrite(std::string_view source, const std::vector<Tunable>& tunables,
                            const Assignment& assignment);

/// "kTile=32 kThreads=256", for messages and as a key. Empty for the unchanged source.
std::string Describe(const Assignment& assignment);

}  // namespace cupel::evolve
