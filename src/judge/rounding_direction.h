// Finds 16-bit outputs that are not rounded as PyTorch rounds. Correct rounding is to the nearest,
// so its errors have no direction. Truncation, rounding up, subnormal halves that become zero, and
// approximations that are always too small stay within the tolerance of a 16-bit type, but show
// over many elements and inputs (docs/judging.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "records/verdict.h"

namespace cupel::judge {

struct RoundingProblem {
  size_t output = 0;
  std::vector<size_t> settings;  // that contributed, in ascending order
  std::string message;           // what is wrong
};

/// The first output with such a problem. Considers all trials on the task's own draws together: the
/// elements of one call may share a rounded factor, and then have a direction by chance.
std::optional<RoundingProblem> FindRoundingProblem(
    const std::vector<records::SettingReport>& settings);

}  // namespace cupel::judge
