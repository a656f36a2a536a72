// Splits a command line into words like a shell, but without running one. It supports quotes and
// backslashes, but not variables, patterns or redirections.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel {

/// Accepts 'literal text', "text with \" and \\" and a\ b. Errors: an unclosed quote, a backslash
/// at the end, a NUL byte.
Result<std::vector<std::string>> SplitWords(std::string_view line);

}  // namespace cupel
