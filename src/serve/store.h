// Case files by hash, stored once per node and shared by its workers. A private folder in the cache
// with a lock for each hash. Above the size limit, the least recently used files are removed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "os/mapped_file.h"

namespace cupel::serve {

class FileStore {
 public:
  /// `stop` ends waits for other processes.
  explicit FileStore(std::filesystem::path folder, std::stop_token stop = {},
                     uint64_t limit_bytes = uint64_t{8} << 30)
      : folder_(std::move(folder)), stop_(std::move(stop)), limit_(limit_bytes) {}

  /// Returns at least one byte, from `offset` on.
  using FetchPart = std::function<Result<std::string>(int64_t offset)>;
  /// The file with this hash and size. A missing file is fetched part by part. If another process
  /// is fetching it, this one waits. Errors: among others, the fetched bytes do not match the hash.
  Result<os::MappedFile> Get(const std::string& sha256, int64_t bytes, const FetchPart& fetch);

 private:
  Result<os::MappedFile> Open(const std::filesystem::path& path, const std::string& sha256,
                              int64_t bytes) const;
  Status FetchInto(const std::filesystem::path& path, const std::string& sha256, int64_t bytes,
                   const FetchPart& fetch) const;
  void Trim() const;

  std::filesystem::path folder_;
  std::stop_token stop_;
  uint64_t limit_;
};

}  // namespace cupel::serve
