// The pool of cases on disk: secret (0700), bounded, and safe with several cupel processes at once.
// A case drawn from the system's entropy serves a bounded number of times and is then deleted;
// cases of a user's seed are kept apart and serve for ever. Layout: docs/formats/case.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/mapped_file.h"

namespace cupel::oracle {

/// A case may be judged on this many times.
inline constexpr int kMaxUses = 16;
inline constexpr uint64_t kMaxPooledBytes = 96ull << 20;

struct PooledCase {
  os::MappedFile mapping;
  std::string digest;  // Case::content_hash
};

/// One setting of one task under one PyTorch. Every method takes the folder's lock.
class Pool {
 public:
  /// `root` empty: nothing is kept. `key` names the setting (hex).
  Pool(std::filesystem::path root, uint64_t limit_bytes)
      : root_(std::move(root)), limit_(limit_bytes) {}

  /// Up to `count` different cases, chosen by the system's entropy; counts their use.
  std::vector<PooledCase> Take(const std::string& key, int count);
  /// The case of a user's seed.
  std::optional<PooledCase> TakeSeeded(const std::string& key, const std::string& seed);
  /// How many unused-up entropy cases there are.
  int Available(const std::string& key);

  /// Copies a case in. `seed` empty: drawn from entropy and used `uses` times so far. Too large or
  /// no room: nothing happens, a cache may forget.
  void Insert(const std::string& key, std::span<const std::byte> file, const std::string& digest,
              const std::string& seed, int uses);

  /// The error scales of the setting's outputs, once known.
  std::optional<std::vector<double>> Scales(const std::string& key);
  void SetScales(const std::string& key, const std::vector<double>& scales);

  /// Why the setting has no case of this distribution at all, once that is known.
  std::optional<std::string> Refusal(const std::string& key);
  void SetRefusal(const std::string& key, const std::string& why);

 private:
  void Trim();

  std::filesystem::path root_;
  uint64_t limit_;
};

}  // namespace cupel::oracle
