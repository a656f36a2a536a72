// Command lines as people write them, without a shell. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::serve {

/// A worker's command as words, of which there is one at least.
Result<std::vector<std::string>> SplitCommand(std::string_view text);

/// The path of a program: `name` itself where it has a slash, else found on PATH.
Result<std::string> FindProgram(const std::string& name);

}  // namespace cupel::serve
