// Caches cases that are too large for the pool on disk, for the lifetime of this process. A stream
// or a bench requests a setting's cases repeatedly, and PyTorch needs seconds to compute each. The
// files stay in the child's private folder (in memory if there is room).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "oracle/case_list.h"
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

  /// Takes ownership of `file`, which has been used once. `seed` is as in Pool::Insert. If the
  /// cache is full, it deletes the least recently used cases. It deletes `file` if that alone is
  /// too large.
  void Keep(const std::string& key, const std::filesystem::path& file, uint64_t bytes,
            const std::string& digest, const std::string& seed);

  void Clear();

  /// As in Pool.
  std::vector<PooledCase> Take(const std::string& key, int count);
  std::optional<PooledCase> TakeSeeded(const std::string& key, const std::string& seed);

 private:
  CaseFiles Files();
  void Remove(const KeptCase& one);
  void DropLeastRecentlyUsed();
  bool IsTooMuch() const;

  uint64_t limit_, bytes_ = 0;
  uint64_t opened_ = 0;  // how often a case was stored or opened
  std::function<os::Memory()> memory_;
  std::map<std::string, std::vector<KeptCase>> kept_;  // by key
};

}  // namespace cupel::oracle
