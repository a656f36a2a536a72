// How much memory there is and how much of it may still be taken.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

namespace cupel::os {

/// Bytes. `available` counts what the kernel would give back of its own accord (its cache of files,
/// and not what lies in shared memory).
struct Memory {
  uint64_t total = 0, available = 0;
};

/// This machine's, or the tightest limit (cgroup v2) that a container or batch system sets this
/// process, where less. What cannot be read limits nothing; zeros where nothing can. `root` is for
/// tests.
Memory MemoryNow(const std::filesystem::path& root = "/");

}  // namespace cupel::os
