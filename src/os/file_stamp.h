// Tells whether a file has been replaced. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace cupel::os {

/// Equal as long as the file is neither replaced nor written to.
struct FileStamp {
  uint64_t inode = 0;
  int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

/// Nothing where there is no file.
std::optional<FileStamp> StampOf(const std::filesystem::path& path);

}  // namespace cupel::os
