// SPDX-License-Identifier: Apache-2.0
#include "os/cancel.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "os/process.h"

namespace cupel::os {
namespace {

// Globals, because a signal handler can reach nothing else.
std::atomic<bool> cancel_requested{false};
std::atomic<int> cancel_fd{-1};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

}  // namespace

int CancelFd() {
  static const int created = [] {
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    cancel_fd = fd;
    // A request that came before the descriptor existed must still be seen.
    const uint64_t one = 1;
    if (cancel_requested && fd >= 0 && write(fd, &one, sizeof one) < 0) return fd;
    return fd;
  }();
  return created;
}

void RequestCancel() {
  const int saved = errno;
  cancel_requested = true;
  const uint64_t one = 1;
  const int fd = cancel_fd;
  if (fd >= 0 && write(fd, &one, sizeof one) < 0) {
    // The counter is full, so the descriptor is readable already.
  }
  errno = saved;
}

bool CancelRequested() { return cancel_requested; }

}  // namespace cupel::os
