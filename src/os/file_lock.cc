// Tested by file_store_test.cc and gpu/gpu_lock_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "os/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "os/files.h"

namespace cupel::os {
namespace {

constexpr std::chrono::milliseconds kPause{1};

}  // namespace

Result<Fd> OpenLockFile(const std::filesystem::path& path) {
  Fd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return FailIo("lock", path, errno);
  return file;
}

Status Acquire(const Fd& file, Lock lock, std::optional<std::chrono::steady_clock::time_point> end,
               const std::stop_token& stop) {
  const int operation = lock == Lock::kShared ? LOCK_SH : LOCK_EX;
  while (flock(file.get(), operation | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return Fail(ErrorCode::kIo, fmt::format("cannot lock a file: {}", std::strerror(errno)));
    }
    if (stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
    if (end && std::chrono::steady_clock::now() > *end) {
      return Fail(ErrorCode::kTimeout, "another process holds the lock");
    }
    std::this_thread::sleep_for(kPause);
  }
  return {};
}

void Unlock(const Fd& file) { flock(file.get(), LOCK_UN); }

Result<Fd> LockFile(const std::filesystem::path& path, const std::stop_token& stop) {
  TRY_ASSIGN(Fd file, OpenLockFile(path));
  TRY(Acquire(file, Lock::kExclusive, {}, stop));
  return file;
}

}  // namespace cupel::os
