// Suggestions for misspelled names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace cupel {

/// The number of edits that turn one word into the other. An edit adds, removes or changes a
/// letter, or swaps two neighbours (optimal string alignment, Damerau 1964).
size_t EditDistance(std::string_view a, std::string_view b);

/// The known name nearest to `name`. Empty if more than a third of the letters of `name` would have
/// to change.
std::string ClosestName(std::string_view name, std::span<const std::string> known);

/// Returns "did you mean NAME? " for the start of a remedy, or "" if no known name is near.
std::string DidYouMean(std::string_view name, std::span<const std::string> known);

}  // namespace cupel
