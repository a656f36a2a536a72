// Runs clang-tidy on a kernel, if it is installed and can read the file. The source is hostile
// text, so clang-tidy runs in the compiler's sandbox with fixed arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "build/build.h"

namespace cupel::build {

struct Lint {
  std::vector<Diagnostic> remarks;  // on lines of the file itself, in order
  std::string missing;              // why the file could not be checked; empty if it was
};

/// Errors: as for Build().
Result<Lint> RunClangTidy(const std::filesystem::path& source, const Options& options);

}  // namespace cupel::build
