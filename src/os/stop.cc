// Tested by process_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "os/stop.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace cupel::os {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMs = 100;

/// Milliseconds for poll(2): -1 without a deadline, never negative with one.
int PollTimeout(std::optional<Clock::time_point> end) {
  if (!end) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

}  // namespace

void StopFd::Wake::operator()() const noexcept {
  const uint64_t one = 1;
  (void)!write(fd, &one, sizeof one);
}

StopFd::StopFd(const std::stop_token& stop) {
  if (!stop.stop_possible()) return;
  fd_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (fd_) callback_.emplace(stop, Wake{fd_.get()});
  is_blind_ = !fd_;
}

int StopFd::Limit(int timeout) const {
  if (!is_blind_) return timeout;
  return timeout < 0 ? kPollMs : std::min(timeout, kPollMs);
}

Status AwaitReady(int fd, short events, std::optional<Clock::time_point> end,
                  const std::stop_token& stop, const char* what) {
  const StopFd stop_fd(stop);
  for (;;) {
    if (stop.stop_requested()) return Fail(ErrorCode::kCancelled, "cancelled");
    pollfd fds[2] = {{fd, events, 0}, {stop_fd.get(), POLLIN, 0}};
    const int n = poll(fds, 2, stop_fd.Limit(PollTimeout(end)));
    if (n < 0 && errno != EINTR) {
      return Fail(ErrorCode::kIo, fmt::format("cannot {}: {}", what, std::strerror(errno)));
    }
    if (n > 0 && fds[0].revents != 0) return {};
    if (n == 0 && end && Clock::now() >= *end)
      return Fail(ErrorCode::kTimeout, fmt::format("timed out: {}", what));
  }
}

}  // namespace cupel::os
