// Full checks of global memory: reads of bytes that nobody has written, and data races within a
// block and between blocks. As shared_race.h, with stamps that name the block too; blocks are
// ordered by what they publish (a fence, then an atomic or volatile write) and acquire (an atomic
// or volatile read), whatever the location. Launches follow each other.
//
// Inputs are not watched: nobody may write them, and they are written from the start.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "emu/op.h"
#include "emu/race_clock.h"
#include "emu/race_stamp.h"

namespace cupel::emu {

/// What blocks of a launch know of each other. Not thread-safe: kernels whose blocks may wait for
/// each other run on one thread.
class BlockOrder {
 public:
  /// A warp of block `block` made a strong write after its fences.
  void Publish(uint64_t block, WarpClock& clock);
  /// A strong read by `block`.
  void Acquire(uint64_t block);
  bool HasAcquired(uint64_t block) const;
  /// True when what warp `warp` of block `before` did at `clock` is known to `block`; `strong`: it
  /// may have been the very write that published.
  bool Before(uint64_t before, uint32_t warp, uint32_t clock, uint64_t block, bool strong) const;

 private:
  struct Event {
    uint64_t time = 0;
    std::array<uint32_t, kLanes> seen{};
  };
  struct Known {
    uint64_t acquired = 0;
    std::vector<Event> published;
  };
  static constexpr size_t kMostEvents = 4096;  // of a block; later ones extend the last

  uint64_t now_ = 0;
  std::unordered_map<uint64_t, Known> blocks_;
};

/// The stamps of an allocation: two arrays, of which only what is touched takes memory.
struct WatchedRegion {
  uint64_t begin = 0, end = 0;  // device addresses
  GlobalStamp* writes = nullptr;
  GlobalStamp* reads = nullptr;
};

/// The stamps of all watched global memory. Watch and MarkWritten are not thread-safe.
class GlobalChecker {
 public:
  /// Granules of 2^granule_shift bytes, at most 4.
  explicit GlobalChecker(int granule_shift) : granule_shift_(granule_shift) {}
  ~GlobalChecker();
  GlobalChecker(const GlobalChecker&) = delete;
  GlobalChecker& operator=(const GlobalChecker&) = delete;

  /// Watches [begin, end), which nothing has written; regions come in ascending order. `begin` is a
  /// multiple of 4.
  Status Watch(uint64_t begin, uint64_t end);
  /// The region that holds `address`; null when it is not watched.
  const WatchedRegion* Find(uint64_t address) const;

  /// Starts a launch of `blocks` blocks; false when there are too many to be told apart.
  bool BeginLaunch(uint64_t blocks);
  /// In stamps, block `number` of the launch.
  uint64_t Serial(uint64_t number) const { return first_ + number; }
  uint64_t NumberOf(uint64_t serial) const { return serial - first_; }
  /// In stamps of reads, several blocks of the launch.
  uint64_t SeveralBlocks() const { return next_ - 1; }

  /// An access, before it is done (what is not watched is passed over); `base` is the device
  /// address that offsets count from. False when an error was reported.
  bool Check(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
             uint64_t base, const uint32_t* offsets);
  /// A node of the plan wrote [address, address + bytes).
  void MarkWritten(uint64_t address, uint64_t bytes);
  /// The first byte of [address, address + bytes) that nothing has written; `address + bytes` when
  /// there is none.
  uint64_t FirstUnwritten(uint64_t address, uint64_t bytes) const;

  /// Stamps below are of earlier launches.
  GlobalStamp floor() const { return first_ << kBlockShift; }
  GlobalStamp* WriteStamps(uint64_t address) const;  // null when it is not watched
  const bool* reads_used() const { return &reads_used_; }
  int granule_shift() const { return granule_shift_; }

 private:
  struct Lane;
  bool Ordered(GlobalStamp stamp, const Lane& lane, bool is_read) const;
  bool CheckGranule(const Lane& lane, GlobalStamp& write, GlobalStamp& read, uint64_t granule);
  bool SameInstruction(GlobalStamp write, const Lane& lane, uint64_t granule) const;
  bool ReportRace(const Lane& lane, GlobalStamp other, bool other_wrote) const;

  int granule_shift_;
  std::vector<WatchedRegion> regions_;
  uint64_t first_ = 1;       // serial of the launch's block 0
  uint64_t next_ = 1;        // of the next launch's
  bool reads_used_ = false;  // accessed with __atomic builtins: vector code looks at it
};

}  // namespace cupel::emu
