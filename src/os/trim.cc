// Tested by oracle/pool_test.cc and serve/store_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "os/trim.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace cupel::os {

namespace fs = std::filesystem;

void Trim(std::vector<TrimEntry> entries, uint64_t limit,
          const std::function<bool(const TrimEntry& entry)>& remove) {
  uint64_t total = 0;
  for (const TrimEntry& entry : entries) total += entry.bytes;
  if (total <= limit) return;
  std::sort(entries.begin(), entries.end(),
            [](const TrimEntry& a, const TrimEntry& b) { return a.used < b.used; });
  for (const TrimEntry& entry : entries) {
    if (total <= limit / 10 * 9) break;
    if (remove(entry)) total -= entry.bytes;
  }
}

void TrimFolder(const fs::path& root, uint64_t limit,
                const std::function<bool(const fs::path&)>& counts,
                const std::function<void(const fs::path&)>& deleted) {
  std::vector<TrimEntry> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!counts(entry->path())) continue;
    std::error_code ignored;
    const uint64_t bytes = entry->file_size(ignored);
    if (ignored) continue;
    files.push_back({entry->last_write_time(ignored), bytes, entry->path()});
  }
  Trim(std::move(files), limit, [&](const TrimEntry& file) {
    std::error_code ignored;
    const bool removed = fs::remove(file.path, ignored);
    if (deleted) deleted(file.path);
    return removed;
  });
}

}  // namespace cupel::os
