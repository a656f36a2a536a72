// What a path names, links followed. What cannot be looked at is neither.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace cupel::os {

inline bool IsFile(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

inline bool IsFolder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

}  // namespace cupel::os
