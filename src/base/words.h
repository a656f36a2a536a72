// A command line split into words as a shell would, without a shell: quotes and backslashes, and no
// variables, patterns or redirections. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel {

/// 'as it is', "with \" and \\", a\ b. Error: a quote that is not closed.
Result<std::vector<std::string>> SplitWords(std::string_view line);

}  // namespace cupel
