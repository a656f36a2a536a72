// How a run's file comes to be and who may work on it: complete or not at all, one owner at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <utility>

#include "archive/archive.h"
#include "os/fd.h"

namespace cupel::archive {

/// A regular file that is held open and, by an owner, locked. The lock is flock's, which SQLite's
/// own locks (fcntl) do not meet; it ends with the process, however that ends.
class Claim {
 public:
  static Result<Claim> Make(const std::filesystem::path& file, Access access);
  /// Whether anybody is working on the run: this owner, or the one that a reader finds.
  bool HasOwner() const;

 private:
  Claim(os::Fd fd, Access access) : fd_(std::move(fd)), access_(access) {}
  os::Fd fd_;
  Access access_;
};

/// `write` makes the database under a hidden name; then it gets its own. Fails where `file` exists.
Status CreateWhole(const std::filesystem::path& file,
                   const std::function<Status(const std::filesystem::path&)>& write);

}  // namespace cupel::archive
