// Case files by hash, stored once per node and shared by its workers (os/file_store.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>

#include "base/result.h"
#include "os/file_store.h"
#include "os/mapped_file.h"

namespace cupel::serve {

class CaseStore {
 public:
  /// `stop` ends waits for other processes.
  explicit CaseStore(std::filesystem::path folder, std::stop_token stop = {},
                     uint64_t limit_bytes = uint64_t{8} << 30)
      : files_(std::move(folder), limit_bytes, std::move(stop)) {}

  /// Returns at least one byte, from `offset` on.
  using FetchPart = std::function<Result<std::string>(int64_t offset)>;
  /// The file with this hash and size. A missing file is fetched part by part. If another process
  /// is fetching it, this one waits. Errors: among others, the fetched bytes do not match the hash.
  Result<os::MappedFile> Get(const std::string& sha256, int64_t bytes, const FetchPart& fetch);

 private:
  Result<os::MappedFile> Open(const std::string& sha256, int64_t bytes) const;

  os::FileStore files_;
};

}  // namespace cupel::serve
