// SPDX-License-Identifier: Apache-2.0
#include "os/frames.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "os/stop.h"

namespace cupel::os {
namespace {

using Clock = std::chrono::steady_clock;

/// A peer that sends or reads byte by byte does not extend the deadline.
Status Await(int fd, short events, Clock::time_point deadline, const std::stop_token& stop) {
  constexpr const char* kWhat = "exchange a message with a child process";
  if (Clock::now() > deadline) return Fail(ErrorCode::kTimeout, kWhat);
  return AwaitReady(fd, events, deadline, stop, kWhat);
}

enum class Transfer { kDone, kClosed, kTimeout, kCancelled };

Transfer ReadExactly(int fd, char* to, size_t size, Clock::time_point deadline,
                     const std::stop_token& stop) {
  while (size > 0) {
    // Most answers have arrived already, so poll only if this one has not.
    const ssize_t got = recv(fd, to, size, MSG_DONTWAIT);
    if (got > 0) {
      to += got;
      size -= static_cast<size_t>(got);
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) return Transfer::kClosed;
    if (const auto ready = Await(fd, POLLIN, deadline, stop); !ready) {
      const bool cancelled = ready.error().code == ErrorCode::kCancelled;
      return cancelled ? Transfer::kCancelled : Transfer::kTimeout;
    }
  }
  return Transfer::kDone;
}

/// send(2) of some of the bytes, with a copy of the descriptor `passed` unless it is -1.
ssize_t SendSome(int fd, std::string_view bytes, int passed) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof passed)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (passed >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof passed);
    std::memcpy(CMSG_DATA(header), &passed, sizeof passed);
  }
  return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

Result<std::optional<std::string>> Ended(Transfer transfer, FrameEnd* end) {
  if (transfer == Transfer::kCancelled) return Fail(ErrorCode::kCancelled, "cancelled");
  *end = transfer == Transfer::kTimeout ? FrameEnd::kTimeout : FrameEnd::kClosed;
  return std::optional<std::string>();
}

}  // namespace

Status WriteFrame(int fd, std::string_view payload, Clock::time_point deadline,
                  const std::stop_token& stop, int passed) {
  if (payload.size() > kMaxFrameBytes) {
    return Fail(ErrorCode::kInvalidArgument, "a message to a child process is too large");
  }
  const auto length = static_cast<uint32_t>(payload.size());
  std::string frame(reinterpret_cast<const char*>(&length), sizeof length);
  frame += payload;
  std::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t sent = SendSome(fd, rest, passed);
    if (sent > 0) {
      passed = -1;
      rest.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EINTR) {
      auto ready = Await(fd, POLLOUT, deadline, stop);
      if (!ready && ready.error().code == ErrorCode::kCancelled) return ready;
      if (!ready) return Fail(ErrorCode::kIo, "a child process does not read its messages");
    } else {
      return Fail(ErrorCode::kIo,
                  fmt::format("cannot write to a child process: {}", std::strerror(errno)));
    }
  }
  return {};
}

Result<std::optional<std::string>> ReadFrame(int fd, Clock::time_point deadline, FrameEnd* end,
                                             const std::stop_token& stop) {
  uint32_t length = 0;
  const Transfer head =
      ReadExactly(fd, reinterpret_cast<char*>(&length), sizeof length, deadline, stop);
  if (head != Transfer::kDone) return Ended(head, end);
  if (length > kMaxFrameBytes) {
    return Fail(ErrorCode::kInvalidArgument, "a child process sent a message that is too large");
  }
  std::string payload(length, '\0');
  const Transfer body = ReadExactly(fd, payload.data(), payload.size(), deadline, stop);
  if (body != Transfer::kDone) return Ended(body, end);
  return std::optional<std::string>(std::move(payload));
}

}  // namespace cupel::os
