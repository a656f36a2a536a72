// Which blocks of a launch are ordered before others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "emu/core/op.h"
#include "emu/core/race_clock.h"

namespace cupel::emu {

/// The happens-before order between the blocks of a launch. Not thread-safe: kernels whose blocks
/// may wait for each other run on one thread.
class BlockOrder {
 public:
  /// Records that a warp of block `block` made a strong write after its fences.
  void Publish(uint64_t block, WarpClock& clock);
  /// Records a strong read by block `block`, which does not acquire.
  void Read(uint64_t block);
  /// Records a read that acquires.
  void Acquire(uint64_t block);
  /// Records a fence of block `block`: its reads before it acquire.
  void Fence(uint64_t block);
  bool HasRead(uint64_t block) const;

  enum class Order : uint8_t {
    kNone,
    kRead,      // the block has read what was published, but nothing acquires after the read
    kAcquired,  // as the memory model requires it
  };
  /// How what warp `warp` of block `before` did at `clock` is ordered before the current state of
  /// block `block`. `strong`: the access may itself be the write that published.
  Order Between(uint64_t before, uint32_t warp, uint32_t clock, uint64_t block, bool strong) const;

 private:
  struct Event {
    uint64_t time = 0;
    std::array<uint32_t, kLanes> seen{};
  };
  struct Known {
    uint64_t read = 0, acquired = 0;  // times
    std::vector<Event> published;
  };
  static constexpr size_t kMostEvents = 4096;  // per block; more are merged in pairs

  uint64_t now_ = 0;
  std::unordered_map<uint64_t, Known> blocks_;
};

}  // namespace cupel::emu
