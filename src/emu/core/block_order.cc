// SPDX-License-Identifier: Apache-2.0
#include "emu/core/block_order.h"

#include <algorithm>

#include "emu/core/op.h"

namespace cupel::emu {

void BlockOrder::Publish(uint64_t block, WarpClock& clock) {
  if (clock.published == clock.device_fences) return;
  clock.published = clock.device_fences;
  std::vector<Event>& events = blocks_[block].published;
  if (events.size() >= kMostEvents) {
    // Pairs of events become one. This orders accesses a little too early: it can hide a race but
    // causes no false alarm.
    for (size_t i = 0; i < kMostEvents / 2; ++i) {
      events[i] = events[2 * i];
      for (size_t w = 0; w < kLanes; ++w) {
        events[i].seen[w] = std::max(events[i].seen[w], events[2 * i + 1].seen[w]);
      }
    }
    events.resize(kMostEvents / 2);
  }
  events.push_back({++now_, clock.device_fenced});
}

void BlockOrder::Read(uint64_t block) { blocks_[block].read = ++now_; }

void BlockOrder::Acquire(uint64_t block) {
  Known& known = blocks_[block];
  known.read = known.acquired = ++now_;
}

void BlockOrder::Fence(uint64_t block) {
  const auto found = blocks_.find(block);
  if (found != blocks_.end()) found->second.acquired = found->second.read;
}

bool BlockOrder::HasRead(uint64_t block) const {
  const auto found = blocks_.find(block);
  return found != blocks_.end() && found->second.read != 0;
}

BlockOrder::Order BlockOrder::Between(uint64_t before, uint32_t warp, uint32_t clock,
                                      uint64_t block, bool strong) const {
  const auto writer = blocks_.find(before);
  const auto reader = blocks_.find(block);
  if (writer == blocks_.end() || reader == blocks_.end()) return Order::kNone;
  Order order = Order::kNone;
  // The latest events come first, because most accesses are ordered by them.
  const std::vector<Event>& events = writer->second.published;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->time > reader->second.read) continue;
    const bool seen = event->seen[warp] > clock || (strong && event->seen[warp] == clock);
    if (!seen) continue;
    if (event->time <= reader->second.acquired) return Order::kAcquired;
    order = Order::kRead;
  }
  return order;
}

}  // namespace cupel::emu
