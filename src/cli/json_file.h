// The file that --json names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace cupel::cli {

/// The schema of the document that is written if the command fails.
inline constexpr std::string_view kErrorSchema = "cupel.error/1";

/// Writes `json` to `path`, unless `path` is empty.
Status WriteJson(const std::filesystem::path& path, const Json& json);

}  // namespace cupel::cli
