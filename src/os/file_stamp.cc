// SPDX-License-Identifier: Apache-2.0
#include "os/file_stamp.h"

#include <sys/stat.h>

namespace cupel::os {

std::optional<FileStamp> StampOf(const std::filesystem::path& path) {
  struct stat file;
  if (path.empty() || stat(path.c_str(), &file) != 0) return std::nullopt;
  return FileStamp{file.st_ino,
                   file.st_ctim.tv_sec * int64_t{1'000'000'000} + file.st_ctim.tv_nsec};
}

}  // namespace cupel::os
