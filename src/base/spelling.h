// What somebody probably meant who wrote a name that is not known. SPDX-License-Identifier:
// Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace cupel {

/// Number of letters that must be added, left out or changed, or of neighbours that change places,
/// to make one word of the other (optimal string alignment, Damerau 1964).
size_t EditDistance(std::string_view a, std::string_view b);

/// The known name that is nearest to `name`, where no more than a third of its letters differ; else
/// empty.
std::string ClosestName(std::string_view name, std::span<const std::string> known);

/// "did you mean NAME? ", for the beginning of a remedy; empty where no known name is near.
std::string DidYouMean(std::string_view name, std::span<const std::string> known);

}  // namespace cupel
