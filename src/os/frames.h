// The wire between cupel and a child of its own: frames of a 4-byte length (host order, both ends
// are one machine) and that many bytes of JSON, over a socket pair. SPDX-License-Identifier:
// Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cupel::os {

/// Larger than any request or answer; what exceeds it is refused, not read.
inline constexpr uint32_t kMaxFrameBytes = 64u << 20;
/// The descriptor under which the child finds its end.
inline constexpr int kChildFd = 3;

enum class FrameEnd { kClosed, kTimeout };

/// kIo when the other side has gone away or does not read.
Status WriteFrame(int fd, std::string_view payload, std::chrono::steady_clock::time_point deadline);

/// One whole frame; a value of FrameEnd when the other side closed (also: died in mid-frame) or the
/// deadline passed; an Error when the frame is too large or the user cancelled.
Result<std::optional<std::string>> ReadFrame(int fd, std::chrono::steady_clock::time_point deadline,
                                             FrameEnd* end);

}  // namespace cupel::os
