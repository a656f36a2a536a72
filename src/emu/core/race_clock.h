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

/// What threads knew when they arrived at a barrier. Threads that continue after it know it too.
/// Rows have an entry for each warp of the block.
struct Knowledge {
  using Row = std::array<uint32_t, kLanes>;
  Row seen{};                     // WarpClock::seen
  Row fenced{}, device_fenced{};  // their fences also count for warps that publish later
  Row proxied{};                  // and for the asynchronous proxy
};

/// The clocks that a warp knows.
struct WarpClock {
  /// By warp: events of that warp below this clock happened before this warp's current event. The
  /// warp's own entry is the minimum of `lane_seen`.
  alignas(64) std::array<uint32_t, kLanes> seen;
  alignas(64) std::array<uint32_t, kLanes> lane_seen;  // of the own warp, by lane
  std::array<uint32_t, kLanes> fenced;                 // `seen` at the last fence of any scope
  std::array<uint32_t, kLanes> device_fenced;          // `seen` at the last device or system fence
  /// `seen` at the last proxy fence: which generic writes the asynchronous proxy sees.
  alignas(64) std::array<uint32_t, kLanes> proxied;
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
  /// A warp arrived at a barrier.
  void Arrive(uint32_t warp, Knowledge& barrier);
  void Arrive(uint32_t warp, uint32_t barrier) { Arrive(warp, arrived_[barrier]); }
  /// An asynchronous copy that the warp issued at `clock` has arrived at a barrier.
  void ArriveCopy(uint32_t warp, uint32_t clock, Knowledge& barrier);
  /// What the warp did up to `clock` has arrived at a barrier.
  void ArriveAt(uint32_t warp, uint32_t clock, Knowledge& barrier);
  /// Lanes `mask` of a warp continue after the barrier.
  void Leave(uint32_t warp, uint32_t mask, const Knowledge& barrier);
  void Leave(uint32_t warp, uint32_t mask, uint32_t barrier) {
    Leave(warp, mask, arrived_[barrier]);
  }
  /// The warp knows that the events of `other` up to `clock` have happened.
  void Learn(uint32_t warp, uint32_t other, uint32_t clock);
  /// Synchronises all warps of the block.
  void SyncAll();
  /// Empties the barrier.
  void Finish(uint32_t barrier) { arrived_[barrier] = {}; }

  /// The warp's earlier events become visible to warps that acquire what it publishes later.
  void Fence(uint32_t warp, bool reaches_other_blocks);
  /// The asynchronous proxy sees the warp's earlier events, and what the warp knows.
  void FenceProxy(uint32_t warp);
  /// True if the asynchronous proxy, in an operation that `warp` issues now, sees what `other`
  /// wrote at `clock`.
  bool Proxied(uint32_t other, uint32_t clock, uint32_t warp) const {
    return warps_[warp].proxied[other] > clock;
  }
  /// Publish: a strong write after a fence. Acquire: a strong read, which may read any published
  /// one.
  void Publish(uint32_t warp);
  void Acquire(uint32_t warp);
  /// All lanes of the warp know its own events before its last fence.
  void AcquireOwn(uint32_t warp);

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
  using Row = Knowledge::Row;
  static void Join(Row& into, const Row& from);
  static void Summarise(WarpClock& clock, uint32_t warp);
  static void TakeFences(WarpClock& clock, const Knowledge& from);

  uint32_t threads_;
  std::vector<WarpClock> warps_;
  std::array<Knowledge, 16> arrived_{};  // by barrier
  bool any_fence_ = false;
  Row published_{}, published_proxied_{};
};

}  // namespace cupel::emu
