// SPDX-License-Identifier: Apache-2.0
#include "base/lanes.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/schedule.h"

namespace cupel {
namespace {

constexpr int kMostAttempts = 2;  // at an item that a lane could not do

using Failed = std::function<void(size_t item, Error error)>;

class LaneRun {
 public:
  LaneRun(size_t lanes, size_t items, const LaneWork& work, const Failed& failed)
      : work_(work), failed_(failed), schedule_(items, kMostAttempts) {
    errors_.resize(std::max<size_t>(1, std::min(lanes, items)));
    for (size_t lane = 0; lane < errors_.size(); ++lane) working_.insert(lane);
  }

  Status Run() {
    std::vector<std::thread> threads;
    for (size_t lane = 1; lane < errors_.size(); ++lane) {
      try {
        threads.emplace_back([this, lane] { Work(lane); });
      } catch (const std::system_error&) {
        const std::lock_guard lock(mutex_);
        working_.erase(lane);
      }
    }
    Work(0);
    for (std::thread& thread : threads) thread.join();
    return first_error_;
  }

 private:
  void Work(size_t lane) {
    while (const auto item = Take(lane)) End(lane, *item, work_(lane, *item));
  }

  std::optional<size_t> Take(size_t lane) {
    std::unique_lock lock(mutex_);
    while (first_error_ && !schedule_.IsDone() && working_.contains(lane)) {
      if (auto item = schedule_.Take(lane, working_)) return item;
      changed_.wait(lock);  // another lane may lose its item
    }
    return std::nullopt;
  }

  void End(size_t lane, size_t item, Status status) {
    std::unique_lock lock(mutex_);
    const bool may_be_lane = !status && (status.error().code == ErrorCode::kEnvironment ||
                                         status.error().code == ErrorCode::kInternal);
    if (!may_be_lane) errors_[lane] = 0;
    const bool again = may_be_lane && failed_ && working_.size() > 1 &&
                       schedule_.Lose(item, lane, status.error().message);
    if (may_be_lane && ++errors_[lane] >= kMostErrorsInARow && failed_ && working_.size() > 1) {
      working_.erase(lane);
    }
    if (!again) schedule_.Finish(item);
    if (!status && !failed_ && first_error_) first_error_ = status;
    changed_.notify_all();
    lock.unlock();
    if (!status && failed_ && !again) failed_(item, std::move(status.error()));
  }

  const LaneWork& work_;
  const Failed& failed_;  // if empty, an Error ends the run
  std::mutex mutex_;
  std::condition_variable changed_;
  Schedule schedule_;
  std::set<size_t> working_;  // lanes
  std::vector<int> errors_;   // of each lane, in a row
  Status first_error_;
};

}  // namespace

size_t Cores() { return std::max(1u, std::thread::hardware_concurrency()); }

Status ForEachOnLanes(size_t lanes, size_t items, const LaneWork& work) {
  return LaneRun(lanes, items, work, {}).Run();
}

void TryOnLanes(size_t lanes, size_t items, const LaneWork& work, const Failed& failed) {
  (void)LaneRun(lanes, items, work, failed).Run();
}

}  // namespace cupel
