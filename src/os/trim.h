// Keeps a cache of files within its bound. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace cupel::os {

/// Where the files below `root` that `counts` names have more than `limit` bytes together: deletes
/// those that were written (or touched) longest ago until nine tenths are left. Whoever has one
/// open keeps its bytes. What cannot be read or deleted is passed over: a cache may forget, or not.
void TrimFolder(const std::filesystem::path& root, uint64_t limit,
                const std::function<bool(const std::filesystem::path&)>& counts,
                const std::function<void(const std::filesystem::path&)>& deleted = {});

}  // namespace cupel::os
