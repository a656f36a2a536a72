// Waits that a std::stop_token ends at once: its stop request as a descriptor for poll(2).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>

#include "base/result.h"
#include "os/fd.h"

namespace cupel::os {

/// A descriptor that becomes readable when a stop is requested, for poll(2) together with others.
/// Costs two system calls, so it can be made for each wait.
class StopFd {
 public:
  explicit StopFd(const std::stop_token& stop);
  StopFd(const StopFd&) = delete;
  StopFd& operator=(const StopFd&) = delete;
  /// -1, which poll ignores, if the token cannot be stopped or no descriptor is left.
  int get() const { return fd_.get(); }
  /// The time that poll may wait, in milliseconds (-1: any): `timeout`, or less if no descriptor is
  /// left, so that the caller looks for a stop request regularly.
  int Limit(int timeout) const;

 private:
  struct Wake {
    int fd;
    void operator()() const noexcept;
  };
  Fd fd_;
  bool is_blind_ = false;  // no descriptor is left
  std::optional<std::stop_callback<Wake>> callback_;
};

/// Waits until `fd` is ready for `events` or closed. Errors: kTimeout at `end`, kCancelled after a
/// stop request, kIo. `what` is for messages: "read from a child process".
Status AwaitReady(int fd, short events, std::optional<std::chrono::steady_clock::time_point> end,
                  const std::stop_token& stop, const char* what);

}  // namespace cupel::os
