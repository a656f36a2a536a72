// Keeps a cache of files or folders within its size limit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

namespace cupel::os {

/// One cache entry, which is removed as a whole.
struct TrimEntry {
  std::filesystem::file_time_type used;
  uint64_t bytes = 0;
  std::filesystem::path path;
};

/// The most that a cache may have.
struct TrimLimit {
  uint64_t bytes = 0;
  size_t entries = SIZE_MAX;
};

/// If `entries` are more than the limit, passes the least recently used ones to `remove` until at
/// most 90 % of the limit is used. The rest of the limit is left free so that the next addition
/// need not trim again. `remove` returns whether it removed the entry.
void Trim(std::vector<TrimEntry> entries, const TrimLimit& limit,
          const std::function<bool(const TrimEntry& entry)>& remove);

}  // namespace cupel::os
