// What clang-tidy remarks about a kernel, where it is installed and can read the file. The source
// is hostile text: clang-tidy runs in the compiler's sandbox with fixed arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "build/build.h"

namespace cupel::build {

struct Lint {
  std::vector<Diagnostic> remarks;  // on lines of the file itself, in their order
  std::string missing;              // why there are none to be had; empty: it was read
};

/// Errors: as Build().
Result<Lint> RunClangTidy(const std::filesystem::path& source, const Options& options);

}  // namespace cupel::build
