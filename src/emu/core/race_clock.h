// Tracks the order of events within a block, to find data races. Each warp has a clock, which ticks
// when the warp synchronises, and knows how far it has seen the other warps' clocks (vector clocks;
// FastTrack, Flanagan and Freund 2009, with warps for threads). Lanes of one warp are distinguished
// by when each last synchronised with its neighbours.
//
// Clocks only grow. An access leaves a stamp on its memory (race_stamp.h). If clocks are not
// precise enough, the checker reports nothing: it never reports a correct kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "emu/core/op.h"

namespace cupel::emu {

/// The clocks that a warp knows.
struct WarpClock {
  /// By warp: events of that warp below this clock happened before this warp's current event. The
  /// warp's own entry is the minimum of `lane_seen`.
  alignas(64) std::array<uint32_t, kLanes> seen;
  alignas(64) std::array<uint32_t, kLanes> lane_seen;  // of the own warp, by lane
  std::array<uint32_t, kLanes> fenced;                 // `seen` at the last fence of any scope
  std::array<uint32_t, kLanes> device_fenced;          // `seen` at the last device or system fence
  uint32_t now = 1;
  uint32_t seen_elsewhere = 1;  // the maximum of `seen` over other warps
  uint64_t device_fences = 0;   // counts changes of `device_fenced`
  uint64_t published = 0;       // how many of these other blocks may know (BlockOrder)
};

class BlockClocks {
 public:
  explicit BlockClocks(uint32_t threads);
  void Reset();

  WarpClock& of(uint32_t warp) { return warps_[warp]; }
  const WarpClock& of(uint32_t warp) const { return warps_[warp]; }

  /// Lanes `mask` of a warp have exited: they synchronise no more, and no thread waits for them.
  void Exit(uint32_t warp, uint32_t mask);
  /// Lanes `mask` of a warp synchronised with each other.
  void Sync(uint32_t warp, uint32_t mask);
  /// Lanes `mask` of a warp arrived at a barrier.
  void Arrive(uint32_t warp, uint32_t barrier);
  /// Lanes `mask` of a warp continue after the barrier.
  void Leave(uint32_t warp, uint32_t mask, uint32_t barrier);
  /// Synchronises all warps of the block.
  void SyncAll();
  /// Empties the barrier.
  void Finish(uint32_t barrier) {
    for (auto* rows : {&arrived_, &arrived_fenced_, &arrived_device_fenced_})
      (*rows)[barrier].fill(0);
  }

  /// The warp's earlier events become visible to warps that acquire what it publishes later.
  void Fence(uint32_t warp, bool reaches_other_blocks);
  /// Publish: a strong write after a fence. Acquire: a strong read, which may read any published
  /// one.
  void Publish(uint32_t warp);
  void Acquire(uint32_t warp);

  /// True if `other`'s event at `clock` happened before the current event of `lane` of `warp`.
  bool Before(uint32_t other, uint32_t clock, uint32_t warp, uint32_t lane) const {
    const WarpClock& own = warps_[warp];
    return (other == warp ? own.lane_seen[lane] : own.seen[other]) > clock;
  }
  /// True if `other`'s event at `clock` may be the strong write that published its fence, and
  /// `warp` has acquired it. A warp that has acquired a flag may write the flag.
  bool Published(uint32_t other, uint32_t clock, uint32_t warp) const {
    return warps_[other].fenced[other] == clock && warps_[warp].seen[other] >= clock;
  }
  /// Sets all warps' clocks to the highest one and returns it.
  uint32_t Align();

 private:
  using Row = std::array<uint32_t, kLanes>;
  static void Join(Row& into, const Row& from);
  static void Summarise(WarpClock& clock, uint32_t warp);
  static void TakeFences(WarpClock& clock, const Row& fenced, const Row& device_fenced);

  uint32_t threads_;
  std::vector<WarpClock> warps_;
  // By barrier (the cluster's is last): what the arrived warps had seen.
  std::array<Row, 17> arrived_{};
  // What the arrived warps had fenced. Their fences also count for warps that publish after the
  // barrier.
  std::array<Row, 17> arrived_fenced_{}, arrived_device_fenced_{};
  bool any_fence_ = false;
  Row published_{};
};

}  // namespace cupel::emu
