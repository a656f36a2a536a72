// Cases too large for the pool on disk, kept while one cupel runs: a stream or a bench asks for
// those of a setting again and again, and each costs PyTorch seconds. They stay where the child
// wrote them, in its private folder (in memory where there is room).
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
class Shelf {
 public:
  /// 16 GiB, but no more than a quarter of this machine's memory.
  static uint64_t DefaultLimit();

  /// `memory` is asked as files come: where less than half is available nothing more is kept, and
  /// what is kept goes. Many cupels may share a machine, and their PyTorchs need room.
  explicit Shelf(
      uint64_t limit_bytes, std::function<os::Memory()> memory = [] { return os::MemoryNow(); })
      : limit_(limit_bytes), memory_(std::move(memory)) {}
  Shelf(const Shelf&) = delete;
  Shelf& operator=(const Shelf&) = delete;
  ~Shelf();

  /// Takes over `file`, which has been used once. `tag` as in Pool::Insert's `seed`. What does not
  /// fit drives out what has waited longest; a file that is too large alone is deleted.
  void Keep(const std::string& key, const std::filesystem::path& file, uint64_t bytes,
            const std::string& digest, const std::string& tag);

  void Clear();

  /// Up to `count` different cases of entropy, those first that were used least; each is given
  /// kMaxUses times. A file that has gone is forgotten.
  std::vector<PooledCase> Take(const std::string& key, int count);
  /// The case of a user's seed.
  std::optional<PooledCase> TakeSeeded(const std::string& key, const std::string& tag);

 private:
  struct Book {
    std::string key, tag, digest;
    std::filesystem::path file;
    uint64_t bytes = 0;
    int uses = 1;
  };
  std::optional<PooledCase> Open(Book& book);
  void Drop(size_t index);
  bool IsTooMuch() const;

  uint64_t limit_, bytes_ = 0;
  std::function<os::Memory()> memory_;
  std::vector<Book> books_;  // those used last stand last
};

}  // namespace cupel::oracle
