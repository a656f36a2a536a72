// Tested by race_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/check/shared_race.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "emu/check/race_checks.h"
#include "emu/check/race_report.h"
#include "emu/check/race_trial.h"
#include "emu/check/report.h"
#include "emu/check/sync_notes.h"
#include "emu/core/block_state.h"
#include "emu/core/cluster.h"
#include "emu/core/launch_request.h"
#include "emu/core/launch_state.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"

namespace cupel::emu {

namespace {

/// Byte `byte` of `owner`'s memory, as a thread of `block` calls it.
std::string NameOf(const BlockState& block, const BlockState& owner, uint32_t byte) {
  return fmt::format("byte {} of shared memory{}", byte,
                     &block == &owner ? "" : " of block " + Text(owner.index));
}

/// As Suspicion::place; never an address of global memory.
uint64_t PlaceOf(const BlockState& owner, uint32_t byte) {
  return uint64_t{1} << 63 | owner.number << 32 | byte;
}

}  // namespace

SharedChecker::SharedChecker(uint64_t bytes, uint32_t threads, int granule_shift)
    : clocks_(threads), granule_shift_(granule_shift) {
  // Vector code may read, but not use, memory after the last granule.
  const size_t granules = (bytes >> granule_shift) + 16;
  writes_.resize(granules);
  reads_.resize(granules);
}

void SharedChecker::Reset() {
  std::fill(writes_.begin(), writes_.end(), 0);
  std::fill(reads_.begin(), reads_.end(), 0);
  clocks_.Reset();
  base_ = 0;
}

void SharedChecker::Rebase() {
  for (Stamp& write : writes_) {
    if (write != 0 && SharedClockOf(write) != kPendingClock) write = kInitialised;
  }
  std::fill(reads_.begin(), reads_.end(), 0);
  base_ = clocks_.Align() - 1;
}

void SharedChecker::MakePending(const Warp& warp, const Op* op, uint32_t lane, uint32_t offset,
                                uint32_t bytes) {
  const Stamp stamp =
      kPendingClock << kClockShift | LineId(warp, op) << kLineShift | (warp.index * kLanes + lane);
  std::fill_n(writes_.begin() + (offset >> granule_shift_), bytes >> granule_shift_, stamp);
}

bool SharedChecker::Land(Warp& warp, const Op* op, uint32_t thread, uint32_t clock, uint32_t offset,
                         uint32_t bytes) {
  const bool is_old = clock <= base_ || clock - base_ >= kMostSharedClock;
  const Stamp stamp =
      is_old ? kInitialised
             : (clock - base_) << kClockShift | LineId(warp, op) << kLineShift | thread;
  const uint32_t end = (offset + bytes) >> granule_shift_;
  for (uint32_t granule = offset >> granule_shift_; granule < end; ++granule) {
    const Stamp read = std::exchange(reads_[granule], 0);
    writes_[granule] = stamp;
    if (read == 0) continue;
    const int line = LineOfId(warp, LineIdOf(read));
    Fault(
        warp, op, "shared_race",
        fmt::format("The asynchronous copy fills byte {} of shared memory, which {}{} read before "
                    "the copy was complete: wait for the copy first.",
                    granule << granule_shift_,
                    HasFlag(read) ? std::string("several threads")
                                  : fmt::format("thread {}", ThreadOf(read)),
                    line > 0 ? fmt::format(", at line {},", line) : std::string()),
        static_cast<int>(thread % kLanes));
    return false;
  }
  return true;
}

void SharedChecker::ForgetReads(uint32_t offset, uint32_t bytes) {
  std::fill_n(reads_.begin() + (offset >> granule_shift_), bytes >> granule_shift_, 0);
}

void SharedChecker::MakeWritten(uint32_t offset, uint32_t bytes) {
  ClearPending(offset, bytes);
  ForgetReads(offset, bytes);
}

void SharedChecker::ClearPending(uint32_t offset, uint32_t bytes) {
  std::fill_n(writes_.begin() + (offset >> granule_shift_), bytes >> granule_shift_, kInitialised);
}

/// Calls f(lane, granule) for each granule of each lane's access, until it returns false.
template <class F>
bool SharedChecker::ForEachGranule(Warp& warp, const Op* op, AccessKind kind, uint32_t active,
                                   uint32_t bytes, const uint32_t* offsets, const BlockState& owner,
                                   F f) const {
  const SharedChecker& own = *warp.block->checker;
  const uint32_t clock = own.clocks_.of(warp.index).now - own.base_;
  const Stamp common = clock << kClockShift | LineId(warp, op) << kLineShift;
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
    const uint32_t thread = warp.index * kLanes + lane;
    const Lane access{.warp = warp,
                      .op = op,
                      .kind = kind,
                      .lane = lane,
                      .thread = thread,
                      .offset = offsets[lane],
                      .bytes = bytes,
                      .stamp = common | thread,
                      .active = active,
                      .offsets = offsets,
                      .owner = owner};
    const uint32_t last = (offsets[lane] + bytes - 1) >> granule_shift_;
    for (uint32_t granule = offsets[lane] >> granule_shift_; granule <= last; ++granule) {
      if (!f(access, granule)) return false;
    }
  }
  return true;
}

/// True if the access that left `stamp` happened before that of `lane`, or was its own.
bool SharedChecker::Ordered(Stamp stamp, const Lane& lane, bool is_read) const {
  const uint32_t clock = SharedClockOf(stamp);
  if (stamp == 0 || clock == 0) return true;
  if (is_read && SeveralWarps(stamp)) {
    return clocks_.of(lane.warp.index).seen_elsewhere > clock + base_;
  }
  const bool own = ThreadOf(stamp) == lane.thread && !(is_read && HasFlag(stamp));
  if (own || clocks_.Before(WarpOf(stamp), clock + base_, lane.warp.index, lane.lane)) return true;
  return !is_read && HasFlag(stamp) &&
         clocks_.Published(WarpOf(stamp), clock + base_, lane.warp.index);
}

/// True if an earlier lane of the same instruction left `write`.
bool SharedChecker::SameInstruction(uint64_t write, uint64_t mine, const Lane& lane,
                                    uint32_t granule) const {
  const uint32_t other = ThreadOf(write) % kLanes;
  if (((write ^ mine) & ~uint64_t{kStampFlag | 31u}) != 0 || other >= lane.lane) return false;
  if (((lane.active >> other) & 1u) == 0) return false;
  const uint32_t begin = lane.offsets[other];
  return granule >= begin >> granule_shift_ &&
         granule <= (begin + lane.bytes - 1) >> granule_shift_;
}

/// What is the same for all blocks that may have left the stamp `other`.
RaceReport SharedChecker::ReportOf(const Lane& lane, uint32_t granule, uint64_t other,
                                   bool other_wrote) const {
  RaceReport report;
  report.code = "shared_race";
  report.place = PlaceOf(lane.owner, granule << granule_shift_);
  report.memory = NameOf(*lane.warp.block, lane.owner, granule << granule_shift_);
  report.other_wrote = other_wrote;
  report.mixed =
      other_wrote ? !lane.kind.store && HasFlag(other) : lane.kind.atomic && !lane.kind.plain;
  report.other_line = LineOfId(lane.warp, LineIdOf(other));
  report.other = !other_wrote && HasFlag(other) ? std::string("other threads")
                                                : fmt::format("thread {}", ThreadOf(other));
  report.same_warp = WarpOf(other) == lane.warp.index && !(!other_wrote && SeveralWarps(other));
  report.harmless = lane.kind.store && !lane.kind.atomic &&
                    StoresSameValue(lane.warp, lane.op, lane.kind, lane.lane,
                                    lane.owner.memory + lane.offset, lane.bytes);
  return report;
}

bool SharedChecker::ReportRace(const Lane& lane, uint32_t granule, Stamp other,
                               bool other_wrote) const {
  return Report(lane.warp, lane.op, lane.lane, lane.kind,
                ReportOf(lane, granule, other, other_wrote));
}

namespace {

std::string CopyOf(const Warp& warp, Stamp pending) {
  const int line = LineOfId(warp, LineIdOf(pending));
  return line > 0 ? fmt::format("the asynchronous copy of line {}", line)
                  : std::string("an asynchronous copy");
}

}  // namespace

/// An access to memory that a copy is about to fill. Plain reads are reported when the copy or the
/// block ends.
bool SharedChecker::CheckPending(const Lane& lane, uint32_t granule) const {
  if (!lane.kind.store && !lane.kind.proxied) {
    ReportUnwritten(lane, granule);
    return true;
  }
  Fault(lane.warp, lane.op, "shared_race",
        fmt::format("Thread {} {} {} while {} to it is in progress: wait for the copy first.",
                    lane.thread, lane.kind.store ? "writes" : "reads",
                    NameOf(*lane.warp.block, lane.owner, granule << granule_shift_),
                    CopyOf(lane.warp, writes_[granule])),
        static_cast<int>(lane.lane));
  return false;
}

/// A read by the asynchronous proxy, which is ordered after the last write: it must also be ordered
/// by a proxy fence, unless that write was of the asynchronous proxy itself. CUTLASS and Triton
/// have no fence between cp.async and wgmma; that gets a warning.
bool SharedChecker::CheckProxied(const Lane& lane, uint32_t granule) const {
  const Stamp write = writes_[granule];
  const uint32_t clock = SharedClockOf(write);
  if (clock == 0 || clocks_.Proxied(WarpOf(write), clock + base_, lane.warp.index)) return true;
  const int line = LineOfId(lane.warp, LineIdOf(write));
  if (!copied_.empty() && copied_[granule] == write) {
    if (warned_) return true;
    warned_ = true;
    Warn(lane.warp, lane.op, "missing_proxy_fence",
         fmt::format(
             "The asynchronous proxy reads shared memory that cp.async{} wrote through the "
             "generic proxy, without a fence.proxy.async between the two. CUTLASS and Triton "
             "do that too; PTX does not promise that it works.",
             line > 0 ? fmt::format(" at line {}", line) : std::string()),
         static_cast<int>(lane.lane));
    return true;
  }
  Fault(
      lane.warp, lane.op, "missing_proxy_fence",
      fmt::format("The asynchronous proxy reads byte {} of shared memory, which thread {} wrote{} "
                  "through the generic proxy: a fence.proxy.async is missing between the two.",
                  granule << granule_shift_, ThreadOf(write),
                  line > 0 ? fmt::format(" at line {}", line) : std::string()),
      static_cast<int>(lane.lane));
  return false;
}

void SharedChecker::ReportUnwritten(const Lane& lane, uint32_t granule) const {
  const uint32_t byte = granule << granule_shift_;
  EarlyRead read{
      "uninitialized_shared",
      fmt::format("Thread {} reads {}", lane.thread, NameOf(*lane.warp.block, lane.owner, byte)),
      ", which nothing has written.",
      "",
      PlaceOf(lane.owner, byte),
      true};
  if (IsPending(writes_[granule])) {
    read.code = "missing_copy_wait";
    read.why = fmt::format(" while {} to it is in progress: wait for the copy first.",
                           CopyOf(lane.warp, writes_[granule]));
    read.is_unwritten = false;
  }
  Suspect(lane.warp, lane.op, lane.lane, std::move(read));
}

bool SharedChecker::CheckGranule(const Lane& lane, uint32_t granule) {
  Stamp& write = writes_[granule];
  Stamp& read = reads_[granule];
  if (IsPending(write)) {
    if (!CheckPending(lane, granule)) return false;
    if (read == 0) read = lane.stamp;
    return true;
  }
  if (write == kElsewhere) {
    if (!CheckElsewhere(lane, granule)) return false;
    return !lane.kind.proxied || write == kElsewhere || CheckProxied(lane, granule);
  }
  if (lane.kind.reads() && write == 0) ReportUnwritten(lane, granule);
  const bool strong = lane.kind.strong();
  if (lane.kind.store && SameInstruction(write, lane.stamp, lane, granule)) {
    CompareStores(lane.warp, lane.op, lane.kind, lane.lane, ThreadOf(write) % kLanes, lane.bytes);
  } else if (!Ordered(write, lane, false)) {
    if (!(strong && HasFlag(write))) {
      if (!ReportRace(lane, granule, write, true)) return false;
    } else if (!lane.kind.atomic && WarpOf(write) == lane.warp.index) {
      WarnLockstep(lane.warp, lane.op, ThreadOf(write), lane.thread);
    }
  }
  if (lane.kind.proxied && !CheckProxied(lane, granule)) return false;
  if (lane.kind.store && !Ordered(read, lane, true) && !ReportRace(lane, granule, read, false)) {
    return false;
  }
  if (lane.kind.store) {
    if (strong && !HasFlag(write) && lane.warp.watching && lane.owner.cluster->several()) {
      Elsewhere(lane.owner).weak_writes[granule] = Widened(write, lane.owner);
    }
    write = lane.stamp | (strong ? kStampFlag : 0);
    if (lane.kind.copied) {
      if (copied_.empty()) copied_.resize(writes_.size());
      copied_[granule] = write;
    }
    read = 0;
  } else if (!strong) {
    const bool own = ThreadOf(read) == lane.thread && !HasFlag(read);
    if (own || Ordered(read, lane, true)) {
      read = lane.stamp;
    } else {
      read = AddReader(read, lane.stamp);
    }
  }
  return true;
}

/// Shows an access to a trial, before it is checked.
void SharedChecker::Show(const Lane& lane, uint32_t granule, RaceTrial& trial) const {
  const uint64_t place = PlaceOf(lane.owner, granule << granule_shift_);
  if (lane.kind.reads() && !lane.kind.strong()) {
    trial.OnRead(lane.warp, lane.op, lane.lane, place);
  }
  if (!lane.kind.store) return;
  trial.OnWrite(place, lane.kind.strong(), [&](uint64_t, uint32_t thread, uint32_t clock) {
    return thread == lane.thread ||
           clocks_.Before(thread / kLanes, clock, lane.warp.index, lane.lane);
  });
}

bool SharedChecker::Check(Warp& warp, const Op* op, AccessKind kind, uint32_t active,
                          uint32_t bytes, const uint32_t* offsets) {
  if (NeedsRebase(warp.index)) Rebase();
  if (elsewhere_) elsewhere_->ordered.fill(0);
  RaceTrial* trial = warp.worker->launch->request->trial;
  const bool shows = trial != nullptr && trial->sees_all();
  return ForEachGranule(warp, op, kind, active, bytes, offsets, *warp.block,
                        [&](const Lane& lane, uint32_t granule) {
                          if (shows) Show(lane, granule, *trial);
                          return CheckGranule(lane, granule);
                        });
}

bool SharedChecker::CheckUnchanged(Warp& warp, const Op* op, uint32_t active, uint32_t bytes,
                                   const uint32_t* offsets, const uint32_t* seen) {
  if (NeedsRebase(warp.index)) Rebase();
  if (elsewhere_) elsewhere_->ordered.fill(0);
  AccessKind kind;
  kind.proxied = true;
  RaceTrial* trial = warp.worker->launch->request->trial;
  const bool shows = trial != nullptr && trial->sees_all();
  return ForEachGranule(
      warp, op, kind, active, bytes, offsets, *warp.block, [&](const Lane& lane, uint32_t granule) {
        if (shows) Show(lane, granule, *trial);
        Stamp write = writes_[granule];
        if (write == kElsewhere) {
          const GlobalStamp other = WriteElsewhere(lane, granule);
          if (!IsKnown(other, lane, false)) return ReportSibling(lane, granule, other, true);
          write = Narrowed(other, lane.owner);
        }
        const uint32_t clock = SharedClockOf(write);
        if (clock != 0 && (IsPending(write) || seen[WarpOf(write)] <= clock + base_)) {
          const int line = LineOfId(warp, LineIdOf(write));
          Fault(
              warp, op, "shared_race",
              fmt::format("Thread {} writes byte {} of shared memory{} while this instruction "
                          "still reads it: wait until it is complete before the memory is written.",
                          ThreadOf(write), granule << granule_shift_,
                          line > 0 ? fmt::format(" at line {}", line) : std::string()),
              static_cast<int>(lane.lane));
          return false;
        }
        Stamp& read = reads_[granule];
        read = Ordered(read, lane, true) ? lane.stamp : AddReader(read, lane.stamp);
        return true;
      });
}

bool SharedChecker::CheckSibling(Warp& warp, const Op* op, AccessKind kind, uint32_t active,
                                 uint32_t bytes, const uint32_t* offsets, BlockState& owner) {
  if (SharedChecker& own = *warp.block->checker; own.NeedsRebase(warp.index)) own.Rebase();
  Elsewhere(owner).ordered.fill(0);
  return ForEachGranule(
      warp, op, kind, active, bytes, offsets, owner,
      [&](const Lane& lane, uint32_t granule) { return CheckElsewhere(lane, granule); });
}

bool CheckShared(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
                 const uint32_t* offsets) {
  SharedChecker& checker = *warp.block->checker;
  if (kind.strong()) NoteStrong(warp, kind, false);
  return checker.Check(warp, op, kind, active, bytes, offsets);
}
bool CheckShared(Warp& warp, const Op* op, bool store, bool atomic, uint32_t active, uint32_t bytes,
                 const uint32_t* offsets) {
  AccessKind kind;
  kind.store = store;
  kind.atomic = atomic;
  return CheckShared(warp, op, kind, active, bytes, offsets);
}

void NoteCopyUnderWay(Warp& warp, const Op* op, uint32_t active, uint32_t bytes,
                      const uint32_t* offsets) {
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
    warp.block->checker->MakePending(warp, op, lane, offsets[lane], bytes);
  }
}

}  // namespace cupel::emu
