// Which worker does which item next, and how often an item may be lost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cupel::serve {

/// Items by number, in order; those that were lost come first, but not to the worker that lost them
/// while there is another.
class Schedule {
 public:
  Schedule(size_t items, int most_attempts);

  /// The next item for `worker`. `others`: workers that may still do something, `worker` among
  /// them.
  std::optional<size_t> Take(size_t worker, const std::set<size_t>& others);
  /// Takes that one out of those that wait.
  void Hold(size_t item);
  /// `item` was taken or held, and not begun.
  void Return(size_t item);
  /// `worker` did not finish `item`. False: it has been tried often enough, and counts as finished.
  bool Lose(size_t item, size_t worker, const std::string& why);
  void Finish(size_t item);

  bool IsDone() const { return left_ == 0; }
  int attempts(size_t item) const { return items_[item].attempts; }
  /// Why it was lost, last.
  const std::string& why(size_t item) const { return items_[item].why; }

 private:
  struct State {
    int attempts = 0;
    std::set<size_t> lost_by;
    std::string why;
    bool finished = false;
  };
  std::vector<State> items_;
  std::deque<size_t> waiting_;
  size_t left_;
  int most_attempts_;
};

}  // namespace cupel::serve
