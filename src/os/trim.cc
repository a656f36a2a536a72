// Tested by file_store_test.cc and build/build_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "os/trim.h"

#include <algorithm>

namespace cupel::os {

void Trim(std::vector<TrimEntry> entries, const TrimLimit& limit,
          const std::function<bool(const TrimEntry& entry)>& remove) {
  uint64_t bytes = 0;
  size_t count = entries.size();
  for (const TrimEntry& entry : entries) bytes += entry.bytes;
  if (bytes <= limit.bytes && count <= limit.entries) return;
  std::sort(entries.begin(), entries.end(),
            [](const TrimEntry& a, const TrimEntry& b) { return a.used < b.used; });
  for (const TrimEntry& entry : entries) {
    if (bytes <= limit.bytes / 10 * 9 && count <= limit.entries / 10 * 9) break;
    if (!remove(entry)) continue;
    bytes -= entry.bytes;
    --count;
  }
}

}  // namespace cupel::os
