// File descriptors: ownership, and reads and writes with deadlines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>

#include "base/result.h"

namespace cupel::os {

/// Owns a descriptor; move-only.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.Release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { Close(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int Release();
  void Close();

 private:
  int fd_ = -1;
};

/// Writes all bytes, handling short writes. `deadline` limits the wait for a stuck reader. Errors:
/// kTimeout at the deadline, kCancelled after a stop request.
Status WriteAll(int fd, std::string_view bytes,
                std::optional<std::chrono::milliseconds> deadline = {},
                const std::stop_token& stop = {});
/// Reads the available bytes, at least one. Returns 0 at the end of the stream. Errors: as for
/// WriteAll().
Result<size_t> ReadSome(int fd, std::span<char> buffer,
                        std::optional<std::chrono::milliseconds> deadline = {},
                        const std::stop_token& stop = {});
}  // namespace cupel::os
