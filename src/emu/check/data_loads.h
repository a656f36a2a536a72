// Strong loads (volatile, relaxed) whose values are data: they reach the memory of results, and no
// decision. A load that is repeated until it sees a value, or whose value also tells whether it is
// valid, reaches one. Strong accesses race with nothing, but without an order a load may give the
// value from before another thread's store; only a decision can notice that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <vector>

namespace cupel::emu {

struct Kernel;

/// The data loads of kernels, found once for each. Thread-safe.
class DataLoads {
 public:
  /// `kernel` must stay valid. `source`: Op::source. False if the kernel calls functions out of
  /// line, or if the value cannot be followed.
  bool Contains(const Kernel& kernel, size_t source);

 private:
  std::mutex mutex_;
  std::map<const Kernel*, std::vector<bool>> known_;
};

}  // namespace cupel::emu
