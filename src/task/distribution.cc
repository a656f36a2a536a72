// SPDX-License-Identifier: Apache-2.0
#include "task/distribution.h"

#include <algorithm>
#include <array>

namespace cupel::task {
namespace {

using enum Distribution;

/// Indexed by Distribution.
constexpr std::array<std::string_view, 19> kNames = {
    "usual",    "integers",    "tiny",     "normal",  "uniform",  "offset",    "one_offset",
    "negative", "heavy",       "constant", "zeros",   "extremes", "denormals", "nan",
    "infinity", "huge_offset", "large",    "strided", "shifted"};

/// Distributions that randomize every parameter come first, the least informative ones last.
constexpr std::array kOthers = {kNormal,   kUniform,    kExtremes, kOffset,   kOneOffset, kNegative,
                                kHeavy,    kConstant,   kZeros,    kStrided,  kShifted,   kNan,
                                kInfinity, kHugeOffset, kLarge,    kDenormals};

bool Contains(const std::vector<Distribution>& list, Distribution distribution) {
  return std::find(list.begin(), list.end(), distribution) != list.end();
}

}  // namespace

std::string_view Name(Distribution distribution) {
  return kNames[static_cast<size_t>(distribution)];
}

std::optional<Distribution> DistributionNamed(std::string_view name) {
  const auto* found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Distribution>(found - kNames.begin());
}

std::span<const Distribution> OtherInputs() { return kOthers; }

bool IsJudgedByDefault(Distribution distribution) { return distribution < kDenormals; }

bool IsLayout(Distribution distribution) {
  return distribution == kStrided || distribution == kShifted;
}

std::string DistributionNames() {
  std::string text;
  for (const std::string_view name : kNames) {
    if (name == Name(kUsual)) continue;
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

bool Domain::Excludes(Distribution distribution) const { return Contains(exclude, distribution); }

bool Domain::Judges(Distribution distribution) const {
  return IsJudgedByDefault(distribution) || Contains(include, distribution);
}

}  // namespace cupel::task
