// Where keys come from: the environment, or a file that only its owner can read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "llm/secret.h"

namespace cupel::llm {

/// $XDG_CONFIG_HOME/cupel or ~/.config/cupel; empty when neither is set. Not created.
std::filesystem::path ConfigDir();
/// $CUPEL_KEYS, else ConfigDir()/keys.
std::filesystem::path KeyFile();

/// The key called `variable` ("ANTHROPIC_API_KEY"): from the environment, else from `file`, which
/// holds lines NAME=KEY. Errors: kNotFound, kInvalidArgument (others may read the file; a key with
/// spaces or control characters). No error contains a key.
Result<Secret> FindKey(const std::string& variable, const std::filesystem::path& file = KeyFile());

}  // namespace cupel::llm
