// Finds keys: in the environment, or in a file that only its owner can read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "llm/secret.h"

namespace cupel::llm {

/// $XDG_CONFIG_HOME/cupel or ~/.config/cupel; empty if neither variable is set. Does not create the
/// folder.
std::filesystem::path ConfigDir();
/// $CUPEL_KEYS, else ConfigDir()/keys.
std::filesystem::path KeyFile();

/// The key named `variable` ("ANTHROPIC_API_KEY"), from the environment, otherwise from `file`,
/// which has lines NAME=KEY. Errors: kNotFound; kInvalidArgument if other users can access the
/// file, or the key has spaces or control characters. No error contains a key.
Result<Secret> FindKey(const std::string& variable, const std::filesystem::path& file = KeyFile());

}  // namespace cupel::llm
