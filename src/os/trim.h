// Keeps a cache of files within its bound. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

namespace cupel::os {

/// What a cache may forget as a whole.
struct TrimEntry {
  std::filesystem::file_time_type used;
  uint64_t bytes = 0;
  std::filesystem::path path;
};

/// Where `entries` have more than `limit` bytes together: gives those used longest ago to `remove`
/// until nine tenths are left, so that the next one need not do this again. `remove` tells whether
/// an entry is gone.
void Trim(std::vector<TrimEntry> entries, uint64_t limit,
          const std::function<bool(const TrimEntry& entry)>& remove);

/// Where the files below `root` that `counts` names have more than `limit` bytes together: deletes
/// those that were written (or touched) longest ago until nine tenths are left. Whoever has one
/// open keeps its bytes. What cannot be read or deleted is passed over: a cache may forget, or not.
void TrimFolder(const std::filesystem::path& root, uint64_t limit,
                const std::function<bool(const std::filesystem::path&)>& counts,
                const std::function<void(const std::filesystem::path&)>& deleted = {});

}  // namespace cupel::os
