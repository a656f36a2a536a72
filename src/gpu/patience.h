// Retries while other processes use the GPU's memory, which they usually free soon.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <stop_token>
#include <thread>

#include "base/result.h"

namespace cupel::gpu {

/// How long to retry after the first failure, and the first pause. Pauses double up to eight times
/// that.
struct Patience {
  std::chrono::milliseconds total{0}, pause{0};
};

inline constexpr Patience kForMemory{std::chrono::minutes(3), std::chrono::milliseconds(500)};

/// Calls `call` again while it fails with kBusy, until the time is over. `call` must not hold the
/// GPU's lock after it returns. kCancelled after a stop request.
template <typename Call>
auto RetryWhileBusy(const Patience& patience, const std::stop_token& stop, Call&& call)
    -> decltype(call()) {
  std::optional<std::chrono::steady_clock::time_point> end;
  auto pause = patience.pause;
  while (true) {
    auto answer = call();
    if (answer || answer.error().code != ErrorCode::kBusy) return answer;
    const auto now = std::chrono::steady_clock::now();
    if (!end) end = now + patience.total;
    if (now + pause >= *end) return answer;
    if (stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, 8 * patience.pause);
  }
}

}  // namespace cupel::gpu
