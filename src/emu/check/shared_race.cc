// Tested by race_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/check/shared_race.h"

#include <fmt/format.h>

#include <algorithm>

#include "emu/check/race_checks.h"
#include "emu/check/race_report.h"
#include "emu/check/sync_notes.h"
#include "emu/core/block_state.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

/// A lane's access, as passed between the functions below.
struct SharedChecker::Lane {
  Warp& warp;
  const Op* op;
  AccessKind kind;
  uint32_t lane;
  uint32_t thread;
  uint32_t offset, bytes;
  Stamp stamp;  // without flag
  uint32_t active;
  const uint32_t* offsets;  // of all lanes
};

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
  for (Stamp& write : writes_) write = write == 0 ? 0 : kInitialised;
  std::fill(reads_.begin(), reads_.end(), 0);
  base_ = clocks_.Align() - 1;
}

void SharedChecker::MakePending(uint32_t offset, uint32_t bytes) {
  std::fill_n(writes_.begin() + (offset >> granule_shift_), bytes >> granule_shift_, kCopyPending);
}

void SharedChecker::MakeWritten(uint32_t offset, uint32_t bytes) {
  const size_t first = offset >> granule_shift_, count = bytes >> granule_shift_;
  std::fill_n(writes_.begin() + static_cast<std::ptrdiff_t>(first), count, kInitialised);
  std::fill_n(reads_.begin() + static_cast<std::ptrdiff_t>(first), count, 0);
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
bool SharedChecker::SameInstruction(Stamp write, const Lane& lane, uint32_t granule) const {
  const uint32_t other = ThreadOf(write) % kLanes;
  if (((write ^ lane.stamp) & ~(kStampFlag | 31u)) != 0 || other >= lane.lane) return false;
  if (((lane.active >> other) & 1u) == 0) return false;
  const uint32_t begin = lane.offsets[other];
  return granule >= begin >> granule_shift_ &&
         granule <= (begin + lane.bytes - 1) >> granule_shift_;
}

bool SharedChecker::ReportRace(const Lane& lane, uint32_t granule, Stamp other,
                               bool other_wrote) const {
  RaceReport report;
  report.code = "shared_race";
  report.place = granule << granule_shift_;
  report.memory = fmt::format("byte {} of shared memory", granule << granule_shift_);
  report.other_wrote = other_wrote;
  report.mixed =
      other_wrote ? !lane.kind.store && HasFlag(other) : lane.kind.atomic && !lane.kind.plain;
  report.other_line = LineOfId(lane.warp, LineIdOf(other));
  report.other = !other_wrote && HasFlag(other) ? std::string("other threads")
                                                : fmt::format("thread {}", ThreadOf(other));
  report.same_warp = WarpOf(other) == lane.warp.index && !(!other_wrote && SeveralWarps(other));
  report.harmless = lane.kind.store && !lane.kind.atomic &&
                    StoresSameValue(lane.warp, lane.op, lane.kind, lane.lane,
                                    lane.warp.shared + lane.offset, lane.bytes);
  return Report(lane.warp, lane.op, lane.lane, lane.kind, report);
}

void SharedChecker::ReportUnwritten(const Lane& lane, uint32_t granule) const {
  const uint32_t byte = granule << granule_shift_;
  EarlyRead read{"uninitialized_shared",
                 fmt::format("Thread {} reads byte {} of shared memory", lane.thread, byte),
                 ", which nothing has written.",
                 "",
                 byte,
                 true};
  if (writes_[granule] == kCopyPending) {
    read.code = "missing_copy_wait";
    read.why = " while an asynchronous copy to it is in progress: wait for the copy first.";
    read.is_unwritten = false;
  }
  Suspect(lane.warp, lane.op, lane.lane, std::move(read));
}

bool SharedChecker::CheckGranule(const Lane& lane, uint32_t granule) {
  Stamp& write = writes_[granule];
  Stamp& read = reads_[granule];
  if (lane.kind.reads() && write <= kCopyPending) ReportUnwritten(lane, granule);
  const bool strong = lane.kind.strong();
  if (lane.kind.store && SameInstruction(write, lane, granule)) {
    CompareStores(lane.warp, lane.op, lane.kind, lane.lane, ThreadOf(write) % kLanes);
  } else if (!Ordered(write, lane, false)) {
    if (!(strong && HasFlag(write))) {
      if (!ReportRace(lane, granule, write, true)) return false;
    } else if (!lane.kind.atomic && WarpOf(write) == lane.warp.index) {
      WarnLockstep(lane.warp, lane.op, ThreadOf(write), lane.thread);
    }
  }
  if (lane.kind.store && !Ordered(read, lane, true) && !ReportRace(lane, granule, read, false)) {
    return false;
  }
  if (lane.kind.store) {
    write = lane.stamp | (strong ? kStampFlag : 0);
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

bool SharedChecker::Check(Warp& warp, const Op* op, AccessKind kind, uint32_t active,
                          uint32_t bytes, const uint32_t* offsets) {
  if (NeedsRebase(warp.index)) Rebase();
  const uint32_t clock = clocks_.of(warp.index).now - base_;
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
                      .offsets = offsets};
    const uint32_t last = (offsets[lane] + bytes - 1) >> granule_shift_;
    for (uint32_t granule = offsets[lane] >> granule_shift_; granule <= last; ++granule) {
      if (!CheckGranule(access, granule)) return false;
    }
  }
  return true;
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

void NoteCopyUnderWay(Warp& warp, uint32_t active, uint32_t bytes, const uint32_t* offsets) {
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    warp.block->checker->MakePending(offsets[__builtin_ctz(rest)], bytes);
  }
}

}  // namespace cupel::emu
