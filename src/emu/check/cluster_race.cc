// The races of SharedChecker between blocks of a cluster. Tested by exec/cluster_race_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <vector>

#include "emu/check/global_race.h"
#include "emu/check/race_checks.h"
#include "emu/check/race_report.h"
#include "emu/check/report.h"
#include "emu/check/shared_race.h"
#include "emu/core/block_state.h"
#include "emu/core/cluster.h"
#include "emu/core/launch_state.h"
#include "emu/core/race_stamp.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"

namespace cupel::emu {
namespace {

constexpr GlobalStamp kBelowClock = (GlobalStamp{1} << kClockShift) - 1;

}  // namespace

/// The stamp of an access by a thread of `block`, whose checker this is.
GlobalStamp SharedChecker::Widened(Stamp stamp, const BlockState& block) const {
  const uint32_t clock = SharedClockOf(stamp) + base_;
  if (SharedClockOf(stamp) == 0) return stamp;
  if (clock > kMostGlobalClock) return kInitialised;  // more than stamps can count
  return SerialOf(block) << kBlockShift | GlobalStamp{clock} << kClockShift | (stamp & kBelowClock);
}

/// The reverse, for a write that may be by any block; that of another one counts as ordered.
Stamp SharedChecker::Narrowed(GlobalStamp write, const BlockState& block) const {
  if (write == 0) return 0;
  const uint32_t clock = GlobalClockOf(write);
  if (BlockOf(write) != SerialOf(block) || clock <= base_ || clock - base_ >= kMostSharedClock) {
    return kInitialised;
  }
  return (clock - base_) << kClockShift | static_cast<Stamp>(write & kBelowClock);
}

ClusterStamps& SharedChecker::Elsewhere(const BlockState& owner) {
  if (!elsewhere_) {
    elsewhere_ = std::make_unique<ClusterStamps>();
    elsewhere_->writes.resize(writes_.size());
    elsewhere_->weak_writes.resize(writes_.size());
    elsewhere_->reads.resize(owner.cluster->blocks.size());
  }
  return *elsewhere_;
}

/// The last write to the granule. The granule is not pending.
GlobalStamp SharedChecker::WriteElsewhere(const Lane& lane, uint32_t granule) const {
  const Stamp write = writes_[granule];
  if (write == kElsewhere) return elsewhere_->writes[granule];
  if (write == 0 || SharedClockOf(write) != 0) return Widened(write, lane.owner);
  return std::max<GlobalStamp>(elsewhere_->writes[granule], kInitialised);
}

/// True if the access that left `stamp` happened before that of `lane`.
bool SharedChecker::IsKnown(GlobalStamp stamp, const Lane& lane, bool is_read) {
  const auto& blocks = lane.owner.cluster->blocks;
  if (BlockOf(stamp) - SerialOf(*blocks[0]) >= blocks.size()) return true;
  constexpr GlobalStamp kLine = GlobalStamp{kLineIds - 1} << kLineShift;
  const GlobalStamp event = stamp & ~(kLine | 31u);
  GlobalStamp& ordered = elsewhere_->ordered[WarpOf(stamp)];
  if (ordered == event) return true;
  if (!IsOrdered(lane.warp, lane.lane, stamp, is_read)) return false;
  // The order between blocks is the same for all lanes.
  const bool strong = !is_read && HasFlag(stamp);
  if (!strong && BlockOf(stamp) != SerialOf(*lane.warp.block)) ordered = event;
  return true;
}

/// True if a read of the granule by another block did not happen before the access of `lane`.
bool SharedChecker::IsReadByUnknown(const Lane& lane, uint32_t granule) {
  return std::any_of(elsewhere_->reads.begin(), elsewhere_->reads.end(), [&](const auto& reads) {
    return !reads.empty() && !IsKnown(reads[granule], lane, true);
  });
}

bool SharedChecker::ReportSibling(const Lane& lane, uint32_t granule, GlobalStamp other,
                                  bool other_wrote) const {
  RaceReport report = ReportOf(lane, granule, other, other_wrote);
  const GlobalChecker& checker = *CheckerOf(*lane.warp.worker->launch->memory);
  report.other_block = report.in_cluster = BlockOf(other) != SerialOf(*lane.warp.block);
  if (report.other_block) {
    const LaunchState& launch = *lane.warp.worker->launch;
    report.other = "block " + Text(BlockIndex(launch.request->grid, launch.cluster,
                                              checker.NumberOf(BlockOf(other))));
    report.same_warp = false;
  }
  return Report(lane.warp, lane.op, lane.lane, lane.kind, report);
}

/// Checks an access by any block to a granule that another block has accessed, or one by another
/// block.
bool SharedChecker::CheckElsewhere(const Lane& lane, uint32_t granule) {
  if (IsPending(writes_[granule])) return CheckPending(lane, granule);
  ClusterStamps& stamps = *elsewhere_;
  const bool strong = lane.kind.strong();
  const GlobalStamp write = WriteElsewhere(lane, granule);
  const GlobalStamp mine = lane.warp.block->checker->Widened(lane.stamp, *lane.warp.block);
  if (lane.kind.reads() && write == 0) ReportUnwritten(lane, granule);
  // Strong accesses do not race with each other.
  const GlobalStamp racing = strong && HasFlag(write) ? stamps.weak_writes[granule] : write;
  if (lane.kind.store && SameInstruction(write, mine, lane, granule)) {
    CompareStores(lane.warp, lane.op, lane.kind, lane.lane, ThreadOf(write) % kLanes, lane.bytes);
  } else if (!IsKnown(racing, lane, false) && !ReportSibling(lane, granule, racing, true)) {
    return false;
  }
  if (lane.kind.store) {
    const auto may_follow = [&](GlobalStamp read) {
      return IsKnown(read, lane, true) || ReportSibling(lane, granule, read, false);
    };
    if (!may_follow(Widened(reads_[granule], lane.owner))) return false;
    for (const auto& reads : stamps.reads) {
      if (!reads.empty() && !may_follow(reads[granule])) return false;
    }
    if (strong && !HasFlag(write)) stamps.weak_writes[granule] = write;
    // The stamps of reads stay: what is ordered after this write is ordered after them.
    reads_[granule] = 0;
    const uint32_t flag = strong ? kStampFlag : 0;
    writes_[granule] = lane.is_own() ? lane.stamp | flag : kElsewhere;
    if (!lane.is_own()) stamps.writes[granule] = mine | flag;
    return true;
  }
  if (lane.is_own()) {
    Stamp& read = reads_[granule];
    if (!strong) read = Ordered(read, lane, true) ? lane.stamp : AddReader(read, lane.stamp);
    // All threads of this block are ordered after the other ones' accesses: they need no mark.
    if (IsKnown(write, lane, false) && !IsReadByUnknown(lane, granule)) {
      writes_[granule] = Narrowed(write, lane.owner);
    }
    return true;
  }
  if (strong) return true;
  auto& reads = stamps.reads[lane.warp.block->rank];
  reads.resize(writes_.size());
  GlobalStamp& read = reads[granule];
  const bool is_first = BlockOf(read) != BlockOf(mine) || IsKnown(read, lane, true);
  read = is_first ? mine : AddReader(read, mine);
  stamps.writes[granule] = write;
  writes_[granule] = kElsewhere;
  return true;
}

bool CheckSibling(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
                  const uint32_t* offsets, BlockState& sibling) {
  if (warp.watching) {
    return sibling.checker->CheckSibling(warp, op, kind, active, bytes, offsets, sibling);
  }
  for (uint32_t rest = kind.store ? active : 0; rest != 0; rest &= rest - 1) {
    sibling.checker->MakeWritten(offsets[__builtin_ctz(rest)], bytes);
  }
  return true;
}

}  // namespace cupel::emu
