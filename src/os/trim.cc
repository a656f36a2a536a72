// Tested by file_store_test.cc and build/build_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "os/trim.h"

#include <algorithm>

namespace cupel::os {

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

}  // namespace cupel::os
