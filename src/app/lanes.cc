// Tested by lanes_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "app/lanes.h"

#include <fmt/format.h>

#include <atomic>
#include <thread>

namespace cupel::app {

Result<std::vector<std::unique_ptr<Session>>> OpenLanes(const Common& common,
                                                        const Compile& compile, Events& events) {
  std::vector<std::unique_ptr<Session>> lanes;
  if (common.device != "gpu:all") {
    TRY_ASSIGN(auto session, Session::Create(common, compile, events, true));
    lanes.push_back(std::move(session));
    return lanes;
  }
  for (int ordinal = 0;; ++ordinal) {
    Common one = common;
    one.device = fmt::format("gpu:{}", ordinal);
    auto session = Session::Create(one, compile, events, true);
    // kNotFound means that there are no more GPUs.
    const bool is_end = !session && session.error().code == ErrorCode::kNotFound;
    if (is_end && !lanes.empty()) return lanes;
    if (!session) return tl::unexpected<Error>(session.error());
    lanes.push_back(std::move(*session));
  }
}

Status ForEachOnLanes(size_t lanes, size_t items,
                      const std::function<Status(size_t lane, size_t item)>& work) {
  std::atomic<size_t> next{0};
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  Status first;
  const auto run = [&](size_t lane) {
    for (size_t item = next++; item < items && !stopped; item = next++) {
      if (auto done = work(lane, item); !done) {
        const std::lock_guard lock(mutex);
        if (first) first = done;
        stopped = true;
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t lane = 1; lane < lanes; ++lane) threads.emplace_back(run, lane);
  run(0);
  for (std::thread& thread : threads) thread.join();
  return first;
}

}  // namespace cupel::app
