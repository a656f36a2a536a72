// SPDX-License-Identifier: Apache-2.0
#include "os/fd.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "os/sigpipe.h"
#include "os/stop.h"

namespace cupel::os {
namespace {

using Clock = std::chrono::steady_clock;

std::optional<Clock::time_point> EndOf(std::optional<std::chrono::milliseconds> deadline) {
  if (!deadline) return std::nullopt;
  return Clock::now() + *deadline;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = other.Release();
  }
  return *this;
}

int Fd::Release() { return std::exchange(fd_, -1); }

void Fd::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

Status WriteAll(int fd, std::string_view bytes, std::optional<std::chrono::milliseconds> deadline,
                const std::stop_token& stop) {
  const SigpipeGuard guard;
  const auto end = EndOf(deadline);
  while (!bytes.empty()) {
    // At most PIPE_BUF bytes at once: a pipe that poll reports as writable accepts them without
    // blocking.
    TRY(AwaitReady(fd, POLLOUT, end, stop, "write to a child process"));
    const ssize_t n = write(fd, bytes.data(), std::min<size_t>(bytes.size(), 4096));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) {
      return Fail(ErrorCode::kIo, fmt::format("cannot write: {}", std::strerror(errno)),
                  errno == ENOSPC ? "free space on the disk" : "");
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Result<size_t> ReadSome(int fd, std::span<char> buffer,
                        std::optional<std::chrono::milliseconds> deadline,
                        const std::stop_token& stop) {
  const auto end = EndOf(deadline);
  for (;;) {
    TRY(AwaitReady(fd, POLLIN, end, stop, "read from a child process"));
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR && errno != EAGAIN) {
      return Fail(ErrorCode::kIo, fmt::format("cannot read: {}", std::strerror(errno)));
    }
  }
}

}  // namespace cupel::os
