// Creates a run's file atomically, and ensures that it has only one owner at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <utility>

#include "archive/archive.h"
#include "os/fd.h"

namespace cupel::archive {

/// An open regular file, which an owner also locks with flock. SQLite's own locks use fcntl and do
/// not conflict with it. The lock ends with the process, even if the process is killed.
class Claim {
 public:
  static Result<Claim> Make(const std::filesystem::path& file, Access access);
  /// True if this or another process owns the run.
  bool HasOwner() const;

 private:
  Claim(os::Fd fd, Access access) : fd_(std::move(fd)), access_(access) {}
  os::Fd fd_;
  Access access_;
};

/// `write` makes the database under a hidden name, which is then renamed to `file`. Fails if `file`
/// exists.
Status CreateAtomically(const std::filesystem::path& file,
                        const std::function<Status(const std::filesystem::path&)>& write);

}  // namespace cupel::archive
