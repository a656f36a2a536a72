// How a run's file comes to be and who may work on it: complete or not at all, one owner at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>

#include "archive/archive.h"
#include "os/fd.h"

namespace cupel::archive {

/// Opens a regular file and, for an owner, locks it. The lock is flock's, which SQLite's own locks
/// (fcntl) do not meet; it ends with the process, however that ends.
Result<os::Fd> Claim(const std::filesystem::path& file, Access access);

/// `write` makes the database under a hidden name; then it gets its own. Fails where `file` exists.
Status CreateWhole(const std::filesystem::path& file,
                   const std::function<Status(const std::filesystem::path&)>& write);

}  // namespace cupel::archive
