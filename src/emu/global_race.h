// Full checks of global memory. They detect reads of unwritten bytes, and data races within a block
// and between blocks. They work like shared_race.h, but stamps also contain the block. A block that
// publishes (a fence, then an atomic or volatile write) is ordered before a block that later
// acquires (an atomic or volatile read), at any location. Launches run one after another.
//
// Inputs are not watched: they have contents from the start, and no kernel may write to them.
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

/// The happens-before order between the blocks of a launch. Not thread-safe: kernels whose blocks
/// may wait for each other run on one thread.
class BlockOrder {
 public:
  /// Records that a warp of block `block` made a strong write after its fences.
  void Publish(uint64_t block, WarpClock& clock);
  /// Records a strong read by block `block`.
  void Acquire(uint64_t block);
  bool HasAcquired(uint64_t block) const;
  /// True if what warp `warp` of block `before` did at `clock` is ordered before the current state
  /// of block `block`. `strong`: the access may itself be the write that published.
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
  static constexpr size_t kMostEvents = 4096;  // per block; later events are merged into the last

  uint64_t now_ = 0;
  std::unordered_map<uint64_t, Known> blocks_;
};

/// The stamps of an allocation: two arrays. Only the touched pages of an array take memory.
struct WatchedRegion {
  uint64_t begin = 0, end = 0;  // device addresses
  GlobalStamp* writes = nullptr;
  GlobalStamp* reads = nullptr;
};

/// The stamps of all watched global memory. Watch and MarkWritten are not thread-safe.
class GlobalChecker {
 public:
  /// Granules have 2^granule_shift bytes, at most 4.
  explicit GlobalChecker(int granule_shift) : granule_shift_(granule_shift) {}
  ~GlobalChecker();
  GlobalChecker(const GlobalChecker&) = delete;
  GlobalChecker& operator=(const GlobalChecker&) = delete;

  /// Watches [begin, end), which nothing has written. Regions must be added in ascending order, and
  /// `begin` must be a multiple of 4.
  Status Watch(uint64_t begin, uint64_t end);
  /// The region that contains `address`; null if it is not watched.
  const WatchedRegion* Find(uint64_t address) const;

  /// Starts a launch of `blocks` blocks. Returns false if there are too many for unique serials.
  bool BeginLaunch(uint64_t blocks);
  /// The serial of block `number` of the launch, as used in stamps.
  uint64_t Serial(uint64_t number) const { return first_ + number; }
  uint64_t NumberOf(uint64_t serial) const { return serial - first_; }
  /// The serial in stamps of reads that means several blocks of the launch.
  uint64_t SeveralBlocks() const { return next_ - 1; }

  /// Checks an access before it happens. Lanes with unwatched addresses are skipped. `offsets` are
  /// relative to the device address `base`. Returns false if an error was reported.
  bool Check(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
             uint64_t base, const uint32_t* offsets);
  /// Records that a node of the plan wrote [address, address + bytes).
  void MarkWritten(uint64_t address, uint64_t bytes);
  /// The first unwritten byte of [address, address + bytes); `address + bytes` if there is none.
  uint64_t FirstUnwritten(uint64_t address, uint64_t bytes) const;

  /// Stamps below this value are from earlier launches.
  GlobalStamp floor() const { return first_ << kBlockShift; }
  GlobalStamp* WriteStamps(uint64_t address) const;  // null if not watched
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
  uint64_t next_ = 1;        // serial of the next launch's block 0
  bool reads_used_ = false;  // accessed with __atomic builtins, because vector code reads it
};

}  // namespace cupel::emu
