// Full checks of global memory. They detect reads of unwritten bytes, and data races within a block
// and between blocks. They work like shared_race.h, but stamps also contain the block. A block that
// publishes (a fence, then an atomic or volatile write) is ordered before a block that later
// reads (atomically or volatile), at any location. If no fence follows that read, and it is no
// .acquire, the order is only a warning: CUDA's own samples rely on it. Strong accesses do not
// race, but a value that another block stored without an order may be outdated; that is an error
// for loads of data (data_loads.h). Accesses of block scope
// (.cta) order nothing between blocks, and are atomic only within one. Launches run one after
// another.
//
// Inputs are not watched: they have contents from the start, and no kernel may write to them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "emu/check/data_loads.h"
#include "emu/core/memory.h"
#include "emu/core/op.h"
#include "emu/core/race_clock.h"
#include "emu/core/race_stamp.h"
#include "emu/core/warp.h"

namespace cupel::emu {

class RaceTrial;
struct LaunchState;

/// The stamps of an allocation: two arrays. Only the touched pages of an array take memory.
struct WatchedRegion {
  uint64_t begin = 0, end = 0;  // device addresses
  GlobalStamp* writes = nullptr;
  GlobalStamp* reads = nullptr;
};

/// The stamps of all watched global memory. Watch and MarkWritten are not thread-safe.
class GlobalChecker : public WriteWatch {
 public:
  /// Granules have 2^granule_shift bytes, at most 4.
  explicit GlobalChecker(int granule_shift) : granule_shift_(granule_shift) {}
  ~GlobalChecker() override;
  GlobalChecker(const GlobalChecker&) = delete;
  GlobalChecker& operator=(const GlobalChecker&) = delete;

  /// Watches [begin, end), which nothing has written. Regions must be added in ascending order, and
  /// `begin` must be a multiple of 4.
  Status Watch(uint64_t begin, uint64_t end) override;
  /// The region that contains `address`; null if it is not watched.
  const WatchedRegion* Find(uint64_t address) const;

  /// Starts a launch of `blocks` blocks. `early`: the launch before it may still run, until a
  /// thread waits for it. Returns false if there are too many for unique serials.
  bool BeginLaunch(uint64_t blocks, bool early = false);
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
  void MarkWritten(uint64_t address, uint64_t bytes) override;
  /// The first unwritten byte of [address, address + bytes); `address + bytes` if there is none.
  uint64_t FirstUnwritten(uint64_t address, uint64_t bytes) const;

  /// Stamps below this value are from launches that have ended.
  GlobalStamp floor() const { return ended_ << kBlockShift; }
  GlobalStamp* WriteStamps(uint64_t address) const;  // null if not watched
  const bool* reads_used() const { return &reads_used_; }
  int granule_shift() const { return granule_shift_; }

 private:
  struct Lane;
  /// Stamps below this value are from other launches.
  GlobalStamp own_floor() const { return first_ << kBlockShift; }
  bool CheckWaited(const Lane& lane, GlobalStamp write, GlobalStamp read) const;
  void Show(const Lane& lane, uint64_t granule, RaceTrial& trial) const;
  bool Ordered(GlobalStamp stamp, const Lane& lane, bool is_read) const;
  bool CheckGranule(const Lane& lane, GlobalStamp& last_write, GlobalStamp& last_read,
                    uint64_t granule);
  bool SameInstruction(GlobalStamp write, const Lane& lane, uint64_t granule) const;
  /// The index of the block that left the stamp: "(1, 0, 0)".
  std::string BlockText(const LaunchState& launch, GlobalStamp stamp) const;
  bool ReportRace(const Lane& lane, GlobalStamp other, bool other_wrote) const;
  void WarnUnacquired(const Lane& lane, GlobalStamp write) const;
  bool CheckOutdated(const Lane& lane, GlobalStamp write);

  int granule_shift_;
  DataLoads data_loads_;
  std::vector<WatchedRegion> regions_;
  uint64_t first_ = 1;       // serial of the launch's block 0
  uint64_t ended_ = 1;       // blocks below this serial have ended
  uint64_t next_ = 1;        // serial of the next launch's block 0
  bool reads_used_ = false;  // accessed with __atomic builtins, because vector code reads it
};

/// The serial of a block whose launch watches global memory.
uint64_t SerialOf(const BlockState& block);
/// True if the access that left `stamp`, of a block of this launch, happened before what `lane` of
/// the warp does now, or was by the same thread.
bool IsOrdered(const Warp& warp, uint32_t lane, GlobalStamp stamp, bool is_read);

/// The checker that watches the memory; null if it is not watched.
inline GlobalChecker* CheckerOf(const GlobalMemory& memory) {
  return static_cast<GlobalChecker*>(memory.watch());
}

}  // namespace cupel::emu
