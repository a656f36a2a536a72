// Detects that a file has been replaced or changed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace cupel::os {

/// Stays equal until the file is replaced or written to.
struct FileStamp {
  uint64_t inode = 0;
  int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

/// nullopt if the file does not exist.
std::optional<FileStamp> StampOf(const std::filesystem::path& path);

}  // namespace cupel::os
