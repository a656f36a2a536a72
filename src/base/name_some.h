// Formats a list of names for a sentence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace cupel {

/// Returns "a, b and 3 more". Lists at most `most` names.
std::string NameSome(std::span<const std::string> names, size_t most);

}  // namespace cupel
