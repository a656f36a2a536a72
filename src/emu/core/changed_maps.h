// The tensor maps in global memory that a launch has changed. Tensor copies read maps through the
// tensormap proxy, which sees a change only after a release of the writer and then an acquire of
// the map (fence.proxy.tensormap). An acquire by any thread counts for all: the checks do not
// follow which threads it is ordered before. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

namespace cupel::emu {

/// Thread-safe. Maps are known by their device addresses, blocks by their numbers.
class ChangedMaps {
 public:
  /// `block` has changed the map. `released`: with a release of its own.
  void Change(uint64_t map, uint64_t block, bool released);
  /// A release: of all that `block` has changed.
  void Release(uint64_t block);
  /// An acquire of the map, for all threads.
  void Acquire(uint64_t map);
  /// True if a copy may not see the last change of the map.
  bool IsHidden(uint64_t map) const;

 private:
  struct Hidden {
    uint64_t block = 0;
    bool released = false;
  };
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;
  std::map<uint64_t, Hidden> changes_;
};

}  // namespace cupel::emu
