// Tested by race_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/race_clock.h"

#include <algorithm>

#include "emu/core/op.h"

namespace cupel::emu {

BlockClocks::BlockClocks(uint32_t threads)
    : threads_(threads), warps_((threads + kLanes - 1) / kLanes) {
  Reset();
}

void BlockClocks::Reset() {
  for (WarpClock& clock : warps_) {
    clock.seen.fill(1);
    clock.lane_seen.fill(1);
    clock.fenced.fill(0);
    clock.device_fenced.fill(0);
    clock.proxied.fill(0);
    clock.now = 1;
    clock.seen_elsewhere = 1;
    clock.device_fences = clock.published = 0;
  }
  for (uint32_t barrier = 0; barrier < arrived_.size(); ++barrier) Finish(barrier);
  published_.fill(0);
  published_proxied_.fill(0);
  any_fence_ = false;
  const uint32_t rest = threads_ % kLanes;
  if (rest != 0) Exit(static_cast<uint32_t>(warps_.size()) - 1, kFullMask << rest);
}

void BlockClocks::Exit(uint32_t warp, uint32_t mask) {
  WarpClock& clock = warps_[warp];
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    clock.lane_seen[static_cast<size_t>(__builtin_ctz(rest))] = UINT32_MAX;
  }
  clock.seen[warp] = *std::min_element(clock.lane_seen.begin(), clock.lane_seen.end());
}

void BlockClocks::Join(Row& into, const Row& from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

void BlockClocks::Summarise(WarpClock& clock, uint32_t warp) {
  clock.seen[warp] = *std::min_element(clock.lane_seen.begin(), clock.lane_seen.end());
  uint32_t most = 0;
  for (uint32_t w = 0; w < kLanes; ++w) {
    if (w != warp) most = std::max(most, clock.seen[w]);
  }
  clock.seen_elsewhere = most;
}

void BlockClocks::Sync(uint32_t warp, uint32_t mask) {
  WarpClock& clock = warps_[warp];
  ++clock.now;
  if (mask == kFullMask) {
    clock.lane_seen.fill(clock.now);
    clock.seen[warp] = clock.now;
    return;
  }
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    clock.lane_seen[static_cast<size_t>(__builtin_ctz(rest))] = clock.now;
  }
  clock.seen[warp] = *std::min_element(clock.lane_seen.begin(), clock.lane_seen.end());
}

void BlockClocks::Arrive(uint32_t warp, Knowledge& barrier) {
  const WarpClock& clock = warps_[warp];
  ++warps_[warp].now;
  Row row = clock.seen;
  row[warp] = clock.now;
  Join(barrier.seen, row);
  if (!any_fence_) return;
  Join(barrier.fenced, clock.fenced);
  Join(barrier.device_fenced, clock.device_fenced);
  Join(barrier.proxied, clock.proxied);
}

void BlockClocks::ArriveCopy(uint32_t warp, uint32_t clock, Knowledge& barrier) {
  any_fence_ = true;
  for (Row* row : {&barrier.seen, &barrier.proxied}) {
    (*row)[warp] = std::max((*row)[warp], clock + 1);
  }
}

void BlockClocks::ArriveAt(uint32_t warp, uint32_t clock, Knowledge& barrier) {
  barrier.seen[warp] = std::max(barrier.seen[warp], clock + 1);
}

void BlockClocks::TakeFences(WarpClock& clock, const Knowledge& from) {
  Join(clock.fenced, from.fenced);
  Join(clock.proxied, from.proxied);
  const Row before = clock.device_fenced;
  Join(clock.device_fenced, from.device_fenced);
  if (clock.device_fenced != before) ++clock.device_fences;
}

void BlockClocks::Leave(uint32_t warp, uint32_t mask, const Knowledge& barrier) {
  WarpClock& clock = warps_[warp];
  const Row& row = barrier.seen;
  // Lamport's rule: the clocks of warps that synchronise stay comparable.
  clock.now = std::max(clock.now, *std::max_element(row.begin(), row.end()));
  Join(clock.seen, row);
  if (any_fence_) TakeFences(clock, barrier);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    uint32_t& seen = clock.lane_seen[static_cast<size_t>(__builtin_ctz(rest))];
    seen = std::max(seen, row[warp]);
  }
  Summarise(clock, warp);
}

void BlockClocks::Learn(uint32_t warp, uint32_t other, uint32_t clock) {
  if (other == warp) return;
  WarpClock& own = warps_[warp];
  own.now = std::max(own.now, clock + 1);  // as Leave
  own.seen[other] = std::max(own.seen[other], clock + 1);
  Summarise(own, warp);
}

void BlockClocks::Fence(uint32_t warp, bool reaches_other_blocks) {
  WarpClock& clock = warps_[warp];
  any_fence_ = true;
  ++clock.now;
  clock.fenced = clock.seen;
  clock.fenced[warp] = clock.now;
  if (!reaches_other_blocks) return;
  clock.device_fenced = clock.fenced;
  ++clock.device_fences;
}

void BlockClocks::FenceProxy(uint32_t warp) {
  WarpClock& clock = warps_[warp];
  any_fence_ = true;
  ++clock.now;
  Join(clock.proxied, clock.seen);
  clock.proxied[warp] = clock.now;
}

void BlockClocks::Publish(uint32_t warp) {
  Join(published_, warps_[warp].fenced);
  Join(published_proxied_, warps_[warp].proxied);
}

void BlockClocks::Acquire(uint32_t warp) {
  WarpClock& clock = warps_[warp];
  Join(clock.proxied, published_proxied_);
  const uint32_t own = clock.seen[warp];
  Join(clock.seen, published_);
  clock.seen[warp] = own;
  Summarise(clock, warp);
}

void BlockClocks::AcquireOwn(uint32_t warp) {
  WarpClock& clock = warps_[warp];
  for (uint32_t& seen : clock.lane_seen) seen = std::max(seen, clock.fenced[warp]);
  Summarise(clock, warp);
}

void BlockClocks::SyncAll() {
  const uint32_t now = Align() + 1;
  for (uint32_t w = 0; w < warps_.size(); ++w) {
    WarpClock& clock = warps_[w];
    clock.now = now;
    clock.seen.fill(now);
    for (uint32_t& seen : clock.lane_seen) seen = std::max(seen, now);
    Summarise(clock, w);
  }
  if (!any_fence_) return;
  Knowledge all;
  for (const WarpClock& clock : warps_) {
    Join(all.fenced, clock.fenced);
    Join(all.device_fenced, clock.device_fenced);
    Join(all.proxied, clock.proxied);
  }
  for (WarpClock& clock : warps_) TakeFences(clock, all);
}

uint32_t BlockClocks::Align() {
  uint32_t most = 0;
  for (const WarpClock& clock : warps_) most = std::max(most, clock.now);
  for (WarpClock& clock : warps_) clock.now = most;
  return most;
}

}  // namespace cupel::emu
