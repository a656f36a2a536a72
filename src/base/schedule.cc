// SPDX-License-Identifier: Apache-2.0
#include "base/schedule.h"

#include <algorithm>

namespace cupel {

Schedule::Schedule(size_t items, int most_attempts)
    : items_(items), left_(items), most_attempts_(most_attempts) {
  for (size_t i = 0; i < items; ++i) waiting_.push_back(i);
}

std::optional<size_t> Schedule::Take(size_t worker, const std::set<size_t>& others) {
  const auto suits = [&](size_t item) {
    const std::set<size_t>& lost_by = items_[item].lost_by;
    return lost_by.count(worker) == 0 ||
           std::includes(lost_by.begin(), lost_by.end(), others.begin(), others.end());
  };
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), suits);
  if (found == waiting_.end()) return std::nullopt;
  const size_t item = *found;
  waiting_.erase(found);
  ++items_[item].attempts;
  return item;
}

void Schedule::Hold(size_t item) {
  std::erase(waiting_, item);
  ++items_[item].attempts;
}

void Schedule::Return(size_t item) {
  --items_[item].attempts;
  waiting_.push_front(item);
}

bool Schedule::Lose(size_t item, size_t worker, const std::string& why) {
  items_[item].lost_by.insert(worker);
  items_[item].why = why;
  if (items_[item].attempts >= most_attempts_) {
    Finish(item);
    return false;
  }
  waiting_.push_front(item);
  return true;
}

void Schedule::Finish(size_t item) {
  if (items_[item].finished) return;
  items_[item].finished = true;
  --left_;
}

}  // namespace cupel
