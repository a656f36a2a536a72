// The input distributions of a case's float tensors. task.json's domain, the oracle and verdicts
// share these names. docs/judging.md ("Other inputs") explains the purpose of each.
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
  // For the checks beyond the tolerance (docs/judging.md) only.
  kIntegers,  // -2 to 2: correct arithmetic is then exact in any order
  kTiny,      // the task's own, times 2^-10
  // Judged like the usual inputs.
  kNormal,
  kUniform,    // 0 to 1, not centered
  kOffset,     // the task's own, plus 10 standard deviations
  kOneOffset,  // the same, but only one of several tensors, drawn by the seed
  kNegative,   // the task's own, shifted 10 standard deviations below zero, times 20 if possible
  kHeavy,      // heavy tails
  kConstant,   // one random value per tensor
  kZeros,
  kExtremes,  // the task's own, with a few elements at secret positions multiplied by 1000
  // A failure on these only adds a limitation to the verdict, unless the task's domain includes
  // them.
  kDenormals,
  kNan,         // a few elements of one tensor
  kInfinity,    // the same
  kHugeOffset,  // the task's own, plus 1000 standard deviations
  kLarge,       // the task's own, one tensor times 2^17
  kStrided,     // the task's own numbers in a view that is not contiguous
  kShifted,     // contiguous, one element after an aligned address
};

/// "usual", "huge_offset": the name used in task.json, verdicts and on the command line.
std::string_view Name(Distribution distribution);
std::optional<Distribution> DistributionNamed(std::string_view name);
/// The distributions to try after the usual trials have passed, in order.
std::span<const Distribution> OtherInputs();
/// True if a failure rejects the kernel even if the task does not include the distribution.
bool IsJudgedByDefault(Distribution distribution);
/// True if the distribution changes the layout of tensors, not their values.
bool IsLayout(Distribution distribution);
/// "normal, uniform, …": the names that a task may use, for messages.
std::string DistributionNames();

/// The task's rules about inputs other than those it draws.
struct Domain {
  std::vector<Distribution> include;  // a failure rejects the kernel
  std::vector<Distribution> exclude;  // never tried

  bool Excludes(Distribution distribution) const;
  /// True if a failure rejects the kernel.
  bool Judges(Distribution distribution) const;
};

}  // namespace cupel::task
