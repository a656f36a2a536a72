// The pool of cases on disk: secret (0700), of limited size, and safe for several cupel processes
// at once. A case drawn from entropy is deleted after a limited number of uses. Cases of a user's
// seed have no such limit. Layout: docs/formats/case.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "oracle/case_list.h"
#include "os/file_store.h"

namespace cupel::oracle {

inline constexpr uint64_t kMaxPooledBytes = 96ull << 20;

/// Every method locks the folder of `key`, a hex string that identifies one setting of one task
/// with one PyTorch version.
class Pool {
 public:
  /// If `root` is empty, nothing is kept. `stop` ends waits for other processes.
  Pool(std::filesystem::path root, uint64_t limit_bytes, std::stop_token stop = {})
      : files_(std::move(root), limit_bytes, std::move(stop)), limit_(limit_bytes) {}

  /// Returns up to `count` different cases, chosen by system entropy, and counts their use.
  std::vector<PooledCase> Take(const std::string& key, int count);
  /// The case of a user's seed.
  std::optional<PooledCase> TakeSeeded(const std::string& key, const std::string& seed);
  /// The number of usable cases drawn from entropy.
  int Available(const std::string& key);

  /// Copies a case into the pool. If `seed` is empty, the case was drawn from entropy and has been
  /// used `uses` times. Does nothing if the case is too large or the pool cannot store it.
  void Insert(const std::string& key, std::span<const std::byte> file, const std::string& digest,
              const std::string& seed, int uses);

  /// The error scales of the setting's outputs, if known.
  std::optional<std::vector<double>> Scales(const std::string& key);
  void SetScales(const std::string& key, const std::vector<double>& scales);

  /// Why the setting cannot have a case of this distribution, if known.
  std::optional<std::string> Refusal(const std::string& key);
  void SetRefusal(const std::string& key, const std::string& why);

 private:
  os::FileStore files_;
  uint64_t limit_;
};

}  // namespace cupel::oracle
