// The cases that are kept for one setting, and the rules for using them: those of Pool (on disk,
// for all processes) and of CaseCache (large cases, for this process).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "os/mapped_file.h"

namespace cupel::oracle {

/// How often a case drawn from entropy may be used.
inline constexpr int kMaxUses = 16;

struct PooledCase {
  os::MappedFile mapping;
  std::string digest;  // Case::content_hash
};

struct KeptCase {
  std::filesystem::path file;
  std::string digest;
  std::string seed;  // the user's seed and the trial; empty: drawn from entropy
  int64_t uses = 0;
  std::string sum;        // in the pool: the checksum of the bytes
  uint64_t bytes = 0;     // in the cache
  uint64_t last_use = 0;  // in the cache
};

/// What a store does with the files of its cases.
struct CaseFiles {
  /// nullopt: the file is missing or damaged.
  std::function<std::optional<os::MappedFile>(KeptCase&)> open;
  /// Mappings keep the bytes.
  std::function<void(const KeptCase&)> remove;
};

/// Returns up to `count` different cases drawn from entropy, chosen by system entropy, and counts
/// their use. Removes cases that have been used kMaxUses times, and those that cannot be opened.
std::vector<PooledCase> TakeCases(std::vector<KeptCase>& cases, int count, const CaseFiles& files);
/// The case of a user's seed, which has no limit of uses. Removes it if it cannot be opened.
std::optional<PooledCase> TakeSeededCase(std::vector<KeptCase>& cases, const std::string& seed,
                                         const CaseFiles& files);

}  // namespace cupel::oracle
