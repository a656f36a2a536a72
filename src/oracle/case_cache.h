// Caches cases that are too large for the pool on disk, for the lifetime of this process. A stream
// or a bench requests a setting's cases repeatedly, and PyTorch needs seconds to compute each. The
// files stay in the child's private folder (in memory if there is room).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "oracle/pool.h"
#include "os/memory.h"

namespace cupel::oracle {

/// Not thread-safe. Owns the files that it keeps.
class CaseCache {
 public:
  /// 16 GiB, but at most a quarter of this machine's memory.
  static uint64_t DefaultLimit();

  /// Calls `memory` whenever a file is added. If less than half of the memory is available, the
  /// cache deletes cases until half is available, since other cupel processes and their PyTorch
  /// children may share the machine.
  explicit CaseCache(
      uint64_t limit_bytes, std::function<os::Memory()> memory = [] { return os::MemoryNow(); })
      : limit_(limit_bytes), memory_(std::move(memory)) {}
  CaseCache(const CaseCache&) = delete;
  CaseCache& operator=(const CaseCache&) = delete;
  ~CaseCache();

  /// Takes ownership of `file`, which has been used once. `tag` is as in Pool::Insert's `seed`. If
  /// the cache is full, it deletes the least recently used cases. It deletes `file` if that alone
  /// is too large.
  void Keep(const std::string& key, const std::filesystem::path& file, uint64_t bytes,
            const std::string& digest, const std::string& tag);

  void Clear();

  /// Returns up to `count` different cases drawn from entropy, the least used first. Each case is
  /// returned until it has been used kMaxUses times. Entries whose file is missing are dropped.
  std::vector<PooledCase> Take(const std::string& key, int count);
  /// The case of a user's seed.
  std::optional<PooledCase> TakeSeeded(const std::string& key, const std::string& tag);

 private:
  struct Entry {
    std::string key, tag, digest;
    std::filesystem::path file;
    uint64_t bytes = 0;
    int uses = 1;
    uint64_t last_use = 0;  // value of opened_ then
  };
  std::optional<PooledCase> Open(Entry& entry);
  void Drop(size_t index);
  size_t LeastRecentlyUsed() const;
  bool IsTooMuch() const;

  uint64_t limit_, bytes_ = 0;
  uint64_t opened_ = 0;  // how often a case was stored or opened
  std::function<os::Memory()> memory_;
  std::vector<Entry> entries_;
};

}  // namespace cupel::oracle
