// Command lines as people write them, without a shell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::serve {

/// Splits a worker's command into words. The result has at least one word.
Result<std::vector<std::string>> SplitCommand(std::string_view text);

/// The path of a program: `name` itself if it contains a slash, otherwise found on PATH.
Result<std::string> FindProgram(const std::string& name);

}  // namespace cupel::serve
