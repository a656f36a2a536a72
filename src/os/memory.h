// How much memory exists and how much of it is available.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

namespace cupel::os {

/// Bytes. `available` includes what the kernel frees on demand (its file cache, but not shared
/// memory).
struct Memory {
  uint64_t total = 0, available = 0;
};

/// This machine's memory, or the tightest limit (cgroup v2) that a container or batch system sets
/// for this process, if that is less. Unreadable limits are ignored. Returns zeros if nothing can
/// be read. `root` is for tests.
Memory MemoryNow(const std::filesystem::path& root = "/");

/// The bytes of physical memory that this process uses; 0 if that cannot be read.
uint64_t ResidentBytes();

}  // namespace cupel::os
