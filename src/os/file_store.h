// A cache of files that several processes share: private (0700), of limited size. Above the limit
// the least recently used files are removed. The callers check what they read, since a file may be
// damaged: by its hash (serve/store.h) or a checksum in an index (oracle/pool.h). The build cache
// (build/cache.h) shares only os/trim.h, because its entries are folders.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include "base/result.h"
#include "os/fd.h"
#include "os/mapped_file.h"

namespace cupel::os {

/// Names are relative to the root: "name" or "folder/name". Thread-safe.
class FileStore {
 public:
  /// `root` is created when needed. If it is empty, nothing can be locked. `stop` ends waits for a
  /// lock.
  FileStore(std::filesystem::path root, uint64_t limit_bytes, std::stop_token stop = {})
      : root_(std::move(root)), limit_(limit_bytes), stop_(std::move(stop)) {}

  std::filesystem::path PathOf(const std::string& name) const { return root_ / name; }

  /// Creates the folder of `name`, a lock file, and waits for the lock. Lock files end in "lock".
  Result<Fd> Lock(const std::string& name) const;
  /// Maps the file and records its use.
  Result<MappedFile> Open(const std::string& name) const;
  /// Lets `write` fill a new file, which then replaces `name`. The caller holds a lock. The file is
  /// not synced, so a power failure may damage it.
  Status Write(const std::string& name, const std::function<Status(int fd)>& write) const;
  Status Write(const std::string& name, std::string_view bytes) const;
  /// Processes that have the file open can still read it.
  void Remove(const std::string& name) const;
  /// If the files have more bytes than the limit, or there are more than kMostFiles, removes the
  /// least recently used ones (os/trim.h), each with its lock file NAME.lock, and folders that have
  /// no other files. Lock files, and *.json in the root itself, are not counted. Needs no lock.
  void Trim() const;
  /// Calls Trim(), at random but 64 times for each limit of bytes on average: looking at all files
  /// takes long. `written`: bytes since the last call, of any process.
  void TrimAfter(uint64_t written) const;

  static constexpr size_t kMostFiles = 20'000;

 private:
  void RemoveIfUnused(const std::filesystem::path& folder) const;

  std::filesystem::path root_;
  uint64_t limit_;
  std::stop_token stop_;
};

}  // namespace cupel::os
