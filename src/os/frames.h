// The framing between cupel and the recorder, the GPU worker and processes that trace Python: a
// 4-byte length (host byte order, since both ends are on one machine) and that many bytes of JSON,
// over a socket pair. Text streams use os/lines.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cupel::os {

/// Larger than any request or answer. Longer frames are rejected without reading them.
inline constexpr uint32_t kMaxFrameBytes = 64u << 20;
/// The child's end of the socket pair.
inline constexpr int kChildFd = 3;

enum class FrameEnd { kClosed, kTimeout };

/// kIo if the other side has closed the connection or does not read before the deadline. kCancelled
/// after a stop request. `passed`: a descriptor that the other side gets a copy of, together with
/// the first byte; -1: none.
Status WriteFrame(int fd, std::string_view payload, std::chrono::steady_clock::time_point deadline,
                  const std::stop_token& stop = {}, int passed = -1);

/// Reads one whole frame. Returns nullopt and sets `*end` if the other side closed the connection
/// (possibly within a frame) or the deadline passed. Error if the frame is too large. kCancelled
/// after a stop request.
Result<std::optional<std::string>> ReadFrame(int fd, std::chrono::steady_clock::time_point deadline,
                                             FrameEnd* end, const std::stop_token& stop = {});

}  // namespace cupel::os
