// Decides which worker gets which item next, and how often a lost item is retried. Workers are
// processes (serve/worker_pool.h) or threads (base/lanes.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cupel {

/// A worker that cannot finish this many items in a row, for the fault of its machine, is broken.
/// A GPU that always fails would be fast and would therefore get most items.
inline constexpr int kMostErrorsInARow = 3;

/// Hands out items in the order of their numbers. Lost items come first, but a worker does not get
/// an item that it lost while another worker can take it. Not thread-safe.
class Schedule {
 public:
  Schedule(size_t items, int most_attempts);

  /// The next item for `worker`. `others`: all usable workers, including `worker`.
  std::optional<size_t> Take(size_t worker, const std::set<size_t>& others);
  /// Takes `item` out of the queue.
  void Hold(size_t item);
  /// Puts `item` back, which was taken or held but not started. This is not counted as an attempt.
  void Return(size_t item);
  /// `worker` did not finish `item`. False: there are no attempts left, and it counts as finished.
  bool Lose(size_t item, size_t worker, const std::string& why);
  void Finish(size_t item);

  bool IsDone() const { return left_ == 0; }
  int attempts(size_t item) const { return items_[item].attempts; }
  /// Why it was last lost.
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

}  // namespace cupel
