// Locks between processes, and between threads that open the file separately (flock).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <stop_token>

#include "base/result.h"
#include "os/fd.h"

namespace cupel::os {

enum class Lock { kShared, kExclusive };

/// Opens the lock file, and creates it for this user alone. Nothing is locked yet.
Result<Fd> OpenLockFile(const std::filesystem::path& path);
/// Waits for the lock, which is held until Unlock(), until the descriptor closes, or until the
/// process dies. Errors: kTimeout after `end`, kCancelled after a stop request, kIo.
Status Acquire(const Fd& file, Lock lock,
               std::optional<std::chrono::steady_clock::time_point> end = {},
               const std::stop_token& stop = {});
void Unlock(const Fd& file);
/// Opens the file and waits for the exclusive lock.
Result<Fd> LockFile(const std::filesystem::path& path, const std::stop_token& stop = {});

}  // namespace cupel::os
