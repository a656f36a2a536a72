// Tested by oracle/pool_test.cc and serve/store_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "os/trim.h"

#include <algorithm>
#include <system_error>
#include <vector>

namespace cupel::os {

namespace fs = std::filesystem;

void TrimFolder(const fs::path& root, uint64_t limit,
                const std::function<bool(const fs::path&)>& counts,
                const std::function<void(const fs::path&)>& deleted) {
  struct File {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  uint64_t total = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!counts(entry->path())) continue;
    std::error_code ignored;
    const uint64_t bytes = entry->file_size(ignored);
    if (ignored) continue;
    files.push_back({entry->last_write_time(ignored), bytes, entry->path()});
    total += bytes;
  }
  if (total <= limit) return;
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (total <= limit / 10 * 9) break;
    std::error_code ignored;
    if (fs::remove(file.path, ignored)) total -= file.bytes;
    if (deleted) deleted(file.path);
  }
}

}  // namespace cupel::os
