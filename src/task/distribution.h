// What the float tensors of a case hold: the vocabulary that task.json's domain, the oracle and
// verdicts share. docs/judging.md ("Other inputs") says what each is for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cupel::task {

enum class Distribution : uint8_t {
  kUsual,  // as the task draws them
  // Judged beyond the tolerance only.
  kIntegers,  // -2 to 2, for tasks whose honest arithmetic is then exact in any order
  kTiny,      // the task's own, times 2^-10
  // Judged like the usual ones.
  kNormal,
  kUniform,   // 0 to 1, not centred
  kOffset,    // the task's own, plus 10 standard deviations
  kNegative,  // the task's own, so many below zero, times 20 where that is possible
  kHeavy,     // heavy tails
  kConstant,  // each tensor one random value
  kZeros,
  kExtremes,  // the task's own, a few elements at secret places times 1000
  // What fails there limits what is said of a kernel, unless the task's domain includes them.
  kDenormals,
  kNan,         // a few elements of one tensor
  kInfinity,    // the same
  kHugeOffset,  // the task's own, plus 1000 standard deviations
  kStrided,     // the task's own numbers in a view that is not contiguous
  kShifted,     // contiguous, one element after an aligned address
};

/// "usual", "huge_offset": as in task.json, verdicts and on the command line.
std::string_view Name(Distribution distribution);
std::optional<Distribution> DistributionNamed(std::string_view name);
/// Those tried once the usual trials have passed, in order.
std::span<const Distribution> OtherInputs();
/// True where a failure rejects although no task says so.
bool IsJudgedByDefault(Distribution distribution);
/// Changes where tensors lie, not what they hold.
bool IsLayout(Distribution distribution);
/// "normal, uniform, …": what may be named, for messages.
std::string DistributionNames();

/// What a task says about its inputs, beyond what it draws.
struct Domain {
  std::vector<Distribution> include;  // failing there rejects
  std::vector<Distribution> exclude;  // never tried

  bool Excludes(Distribution distribution) const;
  /// True where a failure rejects.
  bool Judges(Distribution distribution) const;
};

}  // namespace cupel::task
