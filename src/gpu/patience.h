// Memory of the GPU that others take for a call is free again soon.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

#include "base/result.h"
#include "os/process.h"

namespace cupel::gpu {

struct Patience {
  std::chrono::milliseconds whole{0}, pause{0};
};

/// ask(), again and again while it is kBusy and there is patience. Who asks holds nothing meanwhile
/// that the others wait for. kCancelled when the user interrupts.
template <typename Ask>
auto AskPatiently(const Patience& patience, Ask&& ask) -> decltype(ask()) {
  const auto end = std::chrono::steady_clock::now() + patience.whole;
  while (true) {
    auto answer = ask();
    if (answer || answer.error().code != ErrorCode::kBusy) return answer;
    if (std::chrono::steady_clock::now() + patience.pause >= end) return answer;
    if (os::CancelRequested()) return Fail(ErrorCode::kCancelled, "interrupted");
    std::this_thread::sleep_for(patience.pause);
  }
}

}  // namespace cupel::gpu
