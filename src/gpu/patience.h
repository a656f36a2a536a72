// Memory of the GPU that others take for a call or a measurement is free again soon.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "base/result.h"
#include "os/process.h"

namespace cupel::gpu {

/// How long to ask again, counted from the first refusal, and how often: pauses double up to eight
/// times.
struct Patience {
  std::chrono::milliseconds whole{0}, pause{0};
};

inline constexpr Patience kForMemory{std::chrono::minutes(3), std::chrono::milliseconds(500)};

/// ask(), again and again while it is kBusy and there is patience. Who asks has let go of the GPU's
/// lock meanwhile. kCancelled when the user interrupts.
template <typename Ask>
auto AskPatiently(const Patience& patience, Ask&& ask) -> decltype(ask()) {
  std::optional<std::chrono::steady_clock::time_point> end;
  auto pause = patience.pause;
  while (true) {
    auto answer = ask();
    if (answer || answer.error().code != ErrorCode::kBusy) return answer;
    const auto now = std::chrono::steady_clock::now();
    if (!end) end = now + patience.whole;
    if (now + pause >= *end) return answer;
    if (os::CancelRequested()) return Fail(ErrorCode::kCancelled, "interrupted");
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, 8 * patience.pause);
  }
}

}  // namespace cupel::gpu
