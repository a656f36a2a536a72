// How a text differs from another one, line by line, for prompts: most kernels of a run repeat most
// of each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cupel::evolve {

/// The longest common subsequence of lines takes time and memory for each pair of lines.
inline constexpr size_t kMostLinePairs = size_t{1} << 23;

/// The lines that `to` lacks ("-") and has instead ("+"), with two lines of context (" ") around
/// them; "@@ 12 @@" before a part says at which line of `from` it begins. Empty if they have the
/// same lines. nullopt if the result has more than `most` bytes, or if the texts without their
/// common beginning and end have more than kMostLinePairs pairs of lines.
std::optional<std::string> LineDiff(std::string_view from, std::string_view to, size_t most);

}  // namespace cupel::evolve
