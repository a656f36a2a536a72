// Folders that a use case creates for its output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace cupel::app {

/// Fails unless `folder` is missing or an empty folder. Symbolic links fail.
Status CheckNewFolder(const std::filesystem::path& folder);

struct NewFile {
  std::string path;  // relative, without ".."
  std::string text;
};
/// Writes all files to a temporary folder next to `folder` and then renames it, so that no
/// half-written folder remains. Errors: those of CheckNewFolder; kIo.
Status WriteNewFolder(const std::filesystem::path& folder, const std::vector<NewFile>& files);

}  // namespace cupel::app
