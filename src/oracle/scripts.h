// Identifies the Python code of the oracle's children.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace cupel::oracle {

/// SHA-256 of the Python code in a folder: name and content of each module. kIo if there is none,
/// or if one cannot be read.
Result<std::string> ScriptsHash(const std::filesystem::path& folder);

}  // namespace cupel::oracle
