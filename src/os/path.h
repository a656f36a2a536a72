// Whether a path names a file or a folder. Follows links. Both are false if stat(2) fails.
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
