// Files by content, once a node: what one worker has fetched, the others find. A folder in the
// cache, private, with a lock for each hash; what was used last stays longest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "os/mapped_file.h"

namespace cupel::serve {

class FileStore {
 public:
  explicit FileStore(std::filesystem::path folder, uint64_t limit_bytes = uint64_t{8} << 30)
      : folder_(std::move(folder)), limit_(limit_bytes) {}

  /// Bytes from `offset` on, at least one.
  using FetchPart = std::function<Result<std::string>(int64_t offset)>;
  /// The file of this hash and size; fetched, part by part, where it is not there. While another
  /// process fetches it, this one waits. What does not match its hash is an Error, never a file.
  Result<os::MappedFile> Get(const std::string& sha256, int64_t bytes, const FetchPart& fetch);

 private:
  Result<os::MappedFile> Open(const std::filesystem::path& path, const std::string& sha256,
                              int64_t bytes) const;
  Status FetchInto(const std::filesystem::path& path, const std::string& sha256, int64_t bytes,
                   const FetchPart& fetch) const;
  void Trim() const;

  std::filesystem::path folder_;
  uint64_t limit_;
};

}  // namespace cupel::serve
