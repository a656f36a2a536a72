// Full checks of shared memory: reads of unwritten bytes, and data races. Two accesses of different
// threads to the same bytes, at least one of them a write, race if nothing orders them: no barrier,
// no warp-level synchronisation, no fence and flag (race_clock.h). Atomics do not race with each
// other.
//
// Granules have the size of the narrowest shared access in the kernel. Neighbours within a word are
// thus distinguished if the kernel accesses them separately.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "emu/core/op.h"
#include "emu/core/race_clock.h"
#include "emu/core/race_stamp.h"
#include "emu/core/warp.h"

namespace cupel::emu {

class SharedChecker {
 public:
  /// For blocks of `threads` threads with `bytes` bytes of shared memory. Granules have
  /// 2^granule_shift bytes.
  SharedChecker(uint64_t bytes, uint32_t threads, int granule_shift);
  void Reset();

  /// Checks an access of the active lanes before it is done. Returns false after an error.
  bool Check(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
             const uint32_t* offsets);
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
  struct Lane;
  void ReportUnwritten(const Lane& lane, uint32_t granule) const;
  template <class F>
  bool ForEachGranule(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
                      const uint32_t* offsets, F f) const;
  bool CheckGranule(const Lane& lane, uint32_t granule);
  bool CheckPending(const Lane& lane, uint32_t granule) const;
  bool CheckProxied(const Lane& lane, uint32_t granule) const;
  bool Ordered(Stamp stamp, const Lane& lane, bool is_read) const;
  bool SameInstruction(Stamp write, const Lane& lane, uint32_t granule) const;
  bool ReportRace(const Lane& lane, uint32_t granule, Stamp other, bool other_wrote) const;

  BlockClocks clocks_;
  int granule_shift_;
  uint32_t base_ = 0;
  std::vector<Stamp> writes_, reads_;  // by granule: the last write and read
};

/// Reports a barrier that lanes of one warp reached at two places.
void ReportSplitBarrier(Warp& warp, const Op* first, const Op* second);
/// Warns about a barrier of the whole block that warps reached at two places with different lines.
void WarnBarrierPlaces(Warp& warp, const Op* first, const Op* second, uint32_t lanes);

}  // namespace cupel::emu
