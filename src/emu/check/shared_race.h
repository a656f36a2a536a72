// Full checks of shared memory: reads of unwritten bytes, and data races. Two accesses of different
// threads to the same bytes, at least one of them a write, race if nothing orders them: no barrier,
// no warp-level synchronisation, no fence and flag (race_clock.h). Atomics do not race with each
// other.
//
// Accesses by other blocks of a cluster leave their stamps elsewhere (ClusterStamps), and a mark
// that sends every later access there.
//
// Granules have the size of the narrowest shared access in the kernel. Neighbours within a word are
// thus distinguished if the kernel accesses them separately.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "emu/core/block_state.h"
#include "emu/core/op.h"
#include "emu/core/race_clock.h"
#include "emu/core/race_stamp.h"
#include "emu/core/warp.h"

namespace cupel::emu {

struct RaceReport;
class RaceTrial;

/// The accesses to a block's shared memory for which the block's own stamps have no room. Stamps of
/// blocks that are not of the present cluster are left over from earlier ones, and mean nothing.
struct ClusterStamps {
  /// By granule: the last write by any block. An own stamp of the block is later, unless it is
  /// kElsewhere or without a clock.
  std::vector<GlobalStamp> writes;
  /// By granule: the last write that was not strong, if strong ones followed. Those must be ordered
  /// after it, but not after each other.
  std::vector<GlobalStamp> weak_writes;
  /// By rank of another block, and granule: its last read. Empty without reads.
  std::vector<std::vector<GlobalStamp>> reads;
  /// By warp of another block: an access that is known to be ordered before the present
  /// instruction.
  std::array<GlobalStamp, kLanes> ordered{};
};

class SharedChecker {
 public:
  /// For blocks of `threads` threads with `bytes` bytes of shared memory. Granules have
  /// 2^granule_shift bytes.
  SharedChecker(uint64_t bytes, uint32_t threads, int granule_shift);
  void Reset();

  /// Checks an access of the active lanes before it is done. Returns false after an error.
  bool Check(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
             const uint32_t* offsets);
  /// Like Check, for an access by threads of another block of the cluster. `owner`: this block.
  /// Only if global memory is watched too, which orders the blocks.
  bool CheckSibling(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
                    const uint32_t* offsets, BlockState& owner);
  /// Like Check, for a read by the asynchronous proxy that is in progress since the warp had seen
  /// `seen`: the memory must not have been written since then.
  bool CheckUnchanged(Warp& warp, const Op* op, uint32_t active, uint32_t bytes,
                      const uint32_t* offsets, const uint32_t* seen);
  /// Bytes [offset, offset + bytes) have no value until a copy by `lane` of the warp fills them.
  void MakePending(const Warp& warp, const Op* op, uint32_t lane, uint32_t offset, uint32_t bytes);
  /// The earlier reads of the bytes are ordered before all later writes.
  void ForgetReads(uint32_t offset, uint32_t bytes);
  /// A pending copy has filled the bytes. Later accesses are ordered after it if they are ordered
  /// after `clock` of the thread that issued it. Returns false if a thread read the bytes before.
  bool Land(Warp& warp, const Op* op, uint32_t thread, uint32_t clock, uint32_t offset,
            uint32_t bytes);
  /// The bytes have been written, and all later accesses are ordered after that write.
  void MakeWritten(uint32_t offset, uint32_t bytes);
  /// The pending copies to these bytes are complete.
  void ClearPending(uint32_t offset, uint32_t bytes);

  BlockClocks& clocks() { return clocks_; }
  /// Stamps count from this clock. They are rebased when they run out of bits.
  const uint32_t& base() const { return base_; }
  bool NeedsRebase(uint32_t warp) const { return clocks_.of(warp).now - base_ >= kMostSharedClock; }
  void Rebase();

  // For the fast path (races.inc).
  Stamp* writes() { return writes_.data(); }
  Stamp* reads() { return reads_.data(); }
  int granule_shift() const { return granule_shift_; }

 private:
  /// A lane's access, as passed between the functions below.
  struct Lane {
    Warp& warp;
    const Op* op;
    AccessKind kind;
    uint32_t lane;
    uint32_t thread;
    uint32_t offset, bytes;
    Stamp stamp;  // without flag
    uint32_t active;
    const uint32_t* offsets;  // of all lanes
    const BlockState& owner;  // of the memory

    bool is_own() const { return warp.block == &owner; }
  };
  void ReportUnwritten(const Lane& lane, uint32_t granule) const;
  template <class F>
  bool ForEachGranule(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
                      const uint32_t* offsets, const BlockState& owner, F f) const;
  void Show(const Lane& lane, uint32_t granule, RaceTrial& trial) const;
  bool CheckGranule(const Lane& lane, uint32_t granule);
  bool CheckPending(const Lane& lane, uint32_t granule) const;
  bool CheckProxied(const Lane& lane, uint32_t granule) const;
  bool Ordered(Stamp stamp, const Lane& lane, bool is_read) const;
  bool SameInstruction(uint64_t write, uint64_t mine, const Lane& lane, uint32_t granule) const;
  RaceReport ReportOf(const Lane& lane, uint32_t granule, uint64_t other, bool other_wrote) const;
  bool ReportRace(const Lane& lane, uint32_t granule, Stamp other, bool other_wrote) const;

  // Granules that other blocks have accessed, or now access (cluster_race.cc).
  ClusterStamps& Elsewhere(const BlockState& owner);
  bool CheckElsewhere(const Lane& lane, uint32_t granule);
  bool ReportSibling(const Lane& lane, uint32_t granule, GlobalStamp other, bool other_wrote) const;
  bool IsKnown(GlobalStamp stamp, const Lane& lane, bool is_read);
  bool IsReadByUnknown(const Lane& lane, uint32_t granule);
  GlobalStamp WriteElsewhere(const Lane& lane, uint32_t granule) const;
  GlobalStamp Widened(Stamp stamp, const BlockState& block) const;
  Stamp Narrowed(GlobalStamp write, const BlockState& block) const;

  BlockClocks clocks_;
  int granule_shift_;
  uint32_t base_ = 0;
  std::vector<Stamp> writes_, reads_;         // by granule: the last write and read
  std::vector<Stamp> copied_;                 // by granule: the last write of cp.async; empty: none
  mutable bool warned_ = false;               // of a copy that no proxy fence follows
  std::unique_ptr<ClusterStamps> elsewhere_;  // null until another block accesses the memory
};

/// Reports a barrier that lanes of one warp reached at two places.
void ReportSplitBarrier(Warp& warp, const Op* first, const Op* second);
/// Warns about a barrier of the whole block that warps reached at two places with different lines.
void WarnBarrierPlaces(Warp& warp, const Op* first, const Op* second, uint32_t lanes);

}  // namespace cupel::emu
