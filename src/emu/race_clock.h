// What happens before what within a block, for finding data races: a clock for each warp that ticks
// when the warp synchronises with anybody, and for each warp how far it has seen the others' clocks
// (vector clocks; FastTrack, Flanagan and Freund 2009, with warps for threads). Lanes of one warp
// are told apart by when each last synchronised with its neighbours.
//
// Clocks only ever grow. What an access leaves on memory is a stamp (race_stamp.h). Where clocks
// cannot hold the whole truth they err on the side of silence: an honest kernel is never accused.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "emu/op.h"

namespace cupel::emu {

/// A warp's view of time.
struct WarpClock {
  /// By warp: what that warp did while its clock was lower happened before what this one does now.
  /// The own entry is the least of `lane_seen`.
  alignas(64) std::array<uint32_t, kLanes> seen;
  alignas(64) std::array<uint32_t, kLanes> lane_seen;  // of the own warp, by lane
  std::array<uint32_t, kLanes> fenced;                 // `seen` at the last fence of any scope
  std::array<uint32_t, kLanes> device_fenced;          // of one that reaches other blocks
  uint32_t now = 1;
  uint32_t seen_elsewhere = 1;  // the most of `seen` over other warps
  uint64_t device_fences = 0;   // counts changes of `device_fenced`
  uint64_t published = 0;       // how many of them other blocks may know of (BlockOrder)
};

class BlockClocks {
 public:
  explicit BlockClocks(uint32_t threads);
  void Reset();

  WarpClock& of(uint32_t warp) { return warps_[warp]; }
  const WarpClock& of(uint32_t warp) const { return warps_[warp]; }

  /// Lanes `mask` of a warp have exited: they synchronise no more, and nobody waits for them.
  void Exit(uint32_t warp, uint32_t mask);
  /// Lanes `mask` of a warp synchronised with each other.
  void Sync(uint32_t warp, uint32_t mask);
  /// Lanes `mask` of a warp arrived at a barrier.
  void Arrive(uint32_t warp, uint32_t barrier);
  /// They go on after it.
  void Leave(uint32_t warp, uint32_t mask, uint32_t barrier);
  /// All warps of the block, wherever they are, take note of each other.
  void Meet();
  /// The barrier is empty again.
  void Finish(uint32_t barrier) {
    for (auto* rows : {&arrived_, &arrived_fenced_, &arrived_device_fenced_})
      (*rows)[barrier].fill(0);
  }

  /// What the warp did so far will be seen by those who acquire what it publishes from now on.
  void Fence(uint32_t warp, bool reaches_other_blocks);
  /// A strong write after a fence; and a strong read, which may have read any published one.
  void Publish(uint32_t warp);
  void Acquire(uint32_t warp);

  /// True when what `other` did at `clock` happened before what `lane` of `warp` does now.
  bool Before(uint32_t other, uint32_t clock, uint32_t warp, uint32_t lane) const {
    const WarpClock& own = warps_[warp];
    return (other == warp ? own.lane_seen[lane] : own.seen[other]) > clock;
  }
  /// True when what `other` did at `clock` may have been the strong write that published its fence,
  /// and `warp` has acquired that: who acquired a flag may write it.
  bool Published(uint32_t other, uint32_t clock, uint32_t warp) const {
    return warps_[other].fenced[other] == clock && warps_[warp].seen[other] >= clock;
  }
  /// Brings all warps' clocks to the furthest one, which it returns.
  uint32_t Align();

 private:
  using Row = std::array<uint32_t, kLanes>;
  static void Join(Row& into, const Row& from);
  static void Summarise(WarpClock& clock, uint32_t warp);
  static void TakeFences(WarpClock& clock, const Row& fenced, const Row& device_fenced);

  uint32_t threads_;
  std::vector<WarpClock> warps_;
  // By barrier, the cluster's last: what those who arrived had seen.
  std::array<Row, 17> arrived_{};
  // What they had fenced: their fences hold for who goes on behind the barrier and publishes.
  std::array<Row, 17> arrived_fenced_{}, arrived_device_fenced_{};
  bool any_fence_ = false;
  Row published_{};
};

}  // namespace cupel::emu
