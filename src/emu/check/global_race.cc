// Tested by race_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/check/global_race.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>

#include "emu/check/race_checks.h"
#include "emu/check/race_report.h"
#include "emu/check/race_trial.h"
#include "emu/check/report.h"
#include "emu/check/shared_race.h"
#include "emu/check/sync_notes.h"
#include "emu/core/block_order.h"
#include "emu/core/block_state.h"
#include "emu/core/cluster.h"
#include "emu/core/launch_state.h"
#include "emu/core/memory.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"

namespace cupel::emu {
namespace {

GlobalStamp* ReserveStamps(uint64_t stamps) {
  void* at = mmap(nullptr, stamps * sizeof(GlobalStamp), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  madvise(at, stamps * sizeof(GlobalStamp), MADV_HUGEPAGE);  // only a hint, may fail
  return static_cast<GlobalStamp*>(at);
}

uint64_t StampsOf(const WatchedRegion& region, int granule_shift) {
  return ((region.end - region.begin) >> granule_shift) + 16;
}

}  // namespace

/// A lane's access, as an argument of the functions below.
struct GlobalChecker::Lane {
  Warp& warp;
  const Op* op;
  AccessKind kind;
  uint32_t lane;
  uint32_t thread;
  uint32_t bytes;
  uint64_t address;
  GlobalStamp stamp;  // without flag
  uint64_t block;     // serial
  uint32_t active;
  uint64_t base;
  const uint32_t* offsets;  // of all lanes, from base
};

GlobalChecker::~GlobalChecker() {
  for (const WatchedRegion& region : regions_) {
    const uint64_t bytes = StampsOf(region, granule_shift_) * sizeof(GlobalStamp);
    munmap(region.writes, bytes);
    munmap(region.reads, bytes);
  }
}

Status GlobalChecker::Watch(uint64_t begin, uint64_t end) {
  WatchedRegion region{begin, end, nullptr, nullptr};
  region.writes = ReserveStamps(StampsOf(region, granule_shift_));
  region.reads = ReserveStamps(StampsOf(region, granule_shift_));
  regions_.push_back(region);
  if (region.writes == nullptr || region.reads == nullptr) {
    return Fail(ErrorCode::kEnvironment, "not enough address space to check for races");
  }
  return {};
}

const WatchedRegion* GlobalChecker::Find(uint64_t address) const {
  const auto after =
      std::upper_bound(regions_.begin(), regions_.end(), address,
                       [](uint64_t a, const WatchedRegion& region) { return a < region.begin; });
  if (after == regions_.begin()) return nullptr;
  const WatchedRegion& region = *std::prev(after);
  return address < region.end ? &region : nullptr;
}

bool GlobalChecker::BeginLaunch(uint64_t blocks, bool early) {
  ended_ = early ? first_ : next_;
  first_ = next_;
  if (blocks >= kMostBlocks - next_) return false;
  next_ += blocks + 1;
  return true;
}

GlobalStamp* GlobalChecker::WriteStamps(uint64_t address) const {
  const WatchedRegion* region = Find(address);
  if (region == nullptr) return nullptr;
  return region->writes + ((address - region->begin) >> granule_shift_);
}

void GlobalChecker::MarkWritten(uint64_t address, uint64_t bytes) {
  const WatchedRegion* region = Find(address);
  if (bytes == 0 || region == nullptr) return;
  const uint64_t first = address - region->begin;
  const uint64_t last = std::min(first + bytes, region->end - region->begin) - 1;
  std::fill(region->writes + (first >> granule_shift_),
            region->writes + (last >> granule_shift_) + 1, kInitialised);
}

uint64_t GlobalChecker::FirstUnwritten(uint64_t address, uint64_t bytes) const {
  const WatchedRegion* region = Find(address);
  if (bytes == 0 || region == nullptr) return address + bytes;
  const uint64_t first = address - region->begin;
  const uint64_t last = std::min(first + bytes, region->end - region->begin) - 1;
  for (uint64_t granule = first >> granule_shift_; granule <= last >> granule_shift_; ++granule) {
    if (region->writes[granule] == 0) {
      return std::max(address, region->begin + (granule << granule_shift_));
    }
  }
  return address + bytes;
}

uint64_t SerialOf(const BlockState& block) {
  return CheckerOf(*block.worker->launch->memory)->Serial(block.number);
}

bool IsOrdered(const Warp& warp, uint32_t lane, GlobalStamp stamp, bool is_read) {
  const uint64_t block = SerialOf(*warp.block);
  const uint32_t clock = GlobalClockOf(stamp);
  const bool strong = !is_read && HasFlag(stamp);
  if (BlockOf(stamp) != block) {
    return OrderOf(*warp.block).Between(BlockOf(stamp), WarpOf(stamp), clock, block, strong) !=
           BlockOrder::Order::kNone;
  }
  const BlockClocks& clocks = warp.block->checker->clocks();
  if (is_read && SeveralWarps(stamp)) return clocks.of(warp.index).seen_elsewhere > clock;
  const bool own = ThreadOf(stamp) == warp.index * kLanes + lane && !(is_read && HasFlag(stamp));
  if (own || clocks.Before(WarpOf(stamp), clock, warp.index, lane)) return true;
  return strong && clocks.Published(WarpOf(stamp), clock, warp.index);
}

/// True if the access that left `stamp` happened before the access of `lane`, or was by the same
/// thread.
bool GlobalChecker::Ordered(GlobalStamp stamp, const Lane& lane, bool is_read) const {
  if (stamp < own_floor()) return true;  // no access, a node, or an earlier launch
  if (BlockOf(stamp) != SeveralBlocks()) return IsOrdered(lane.warp, lane.lane, stamp, is_read);
  return OrderOf(*lane.warp.block).HasRead(lane.block);
}

/// True if an earlier lane of the same instruction left `write`.
bool GlobalChecker::SameInstruction(GlobalStamp write, const Lane& lane, uint64_t granule) const {
  const uint32_t other = ThreadOf(write) % kLanes;
  if (((write ^ lane.stamp) & ~GlobalStamp{kStampFlag | 31u}) != 0 || other >= lane.lane) {
    return false;
  }
  if (((lane.active >> other) & 1u) == 0) return false;
  // Regions begin at multiples of a granule.
  const uint64_t begin = lane.base + lane.offsets[other];
  return granule >= begin >> granule_shift_ &&
         granule <= (begin + lane.bytes - 1) >> granule_shift_;
}

std::string GlobalChecker::BlockText(const LaunchState& launch, GlobalStamp stamp) const {
  return Text(BlockIndex(launch.request->grid, launch.cluster, NumberOf(BlockOf(stamp))));
}

bool GlobalChecker::ReportRace(const Lane& lane, GlobalStamp other, bool other_wrote) const {
  const LaunchState& launch = *lane.warp.worker->launch;
  RaceReport report;
  report.code = "global_race";
  report.place = lane.address >> granule_shift_ << granule_shift_;
  report.memory = launch.memory->Describe(lane.address);
  report.where = report.memory;
  report.other_wrote = other_wrote;
  report.mixed =
      other_wrote ? !lane.kind.store && HasFlag(other) : lane.kind.atomic && !lane.kind.plain;
  report.other_line = LineOfId(lane.warp, LineIdOf(other));
  report.other_block = BlockOf(other) != lane.block;
  report.of_block_scope = report.other_block && lane.kind.strong() && lane.kind.is_of_block;
  if (BlockOf(other) == SeveralBlocks()) {
    report.other = "other blocks";
  } else if (report.other_block) {
    report.other = "block " + BlockText(launch, other);
  } else if (!other_wrote && HasFlag(other)) {
    report.other = "other threads";
  } else {
    report.other = fmt::format("thread {}", ThreadOf(other));
  }
  report.same_warp = !report.other_block && WarpOf(other) == lane.warp.index &&
                     !(!other_wrote && SeveralWarps(other));
  report.harmless = lane.kind.store && !lane.kind.atomic &&
                    StoresSameValue(lane.warp, lane.op, lane.kind, lane.lane,
                                    launch.memory->Host(lane.address), lane.bytes);
  return Report(lane.warp, lane.op, lane.lane, lane.kind, report);
}

/// Warns if a plain read follows what another block has published, and nothing acquires it.
void GlobalChecker::WarnUnacquired(const Lane& lane, GlobalStamp write) const {
  const BlockOrder::Order order =
      OrderOf(*lane.warp.block)
          .Between(BlockOf(write), WarpOf(write), GlobalClockOf(write), lane.block, HasFlag(write));
  if (order != BlockOrder::Order::kRead) return;
  const LaunchState& launch = *lane.warp.worker->launch;
  const std::string where = launch.memory->Describe(lane.address);
  const std::string other = BlockText(launch, write);
  Warn(lane.warp, lane.op, "missing_acquire",
       fmt::format(
           "Thread {} reads {}, which block {} wrote before it told so, but no fence follows "
           "the read of that message, and it is no acquire. The value may be outdated: a "
           "__threadfence() is missing there.",
           lane.thread, where, other),
       static_cast<int>(lane.lane), where);
}

/// False if a strong load takes data that another block has stored, and nothing orders the two.
bool GlobalChecker::CheckOutdated(const Lane& lane, GlobalStamp write) {
  if (lane.kind.store || BlockOf(write) == lane.block) return true;
  const LaunchState& launch = *lane.warp.worker->launch;
  if (!data_loads_.Contains(*launch.kernel, lane.op->source)) return true;
  const std::string where = launch.memory->Describe(lane.address);
  const std::string other = BlockText(launch, write);
  Fault(lane.warp, lane.op, "outdated_read",
        fmt::format("Thread {} reads {}, which block {} wrote, and no fence orders the two: a "
                    "volatile or relaxed access orders nothing but itself, so the value may be "
                    "the one from before. A __threadfence() is missing between the data and the "
                    "flag that tells of it.",
                    lane.thread, where, other),
        static_cast<int>(lane.lane), where);
  return false;
}

namespace {

/// Whether the thread, or one that it is ordered after, has waited for the launch before this one.
bool HasWaited(const Warp& warp, uint32_t lane) {
  const BlockClocks& clocks = warp.block->checker->clocks();
  return std::any_of(warp.block->grid_waits.begin(), warp.block->grid_waits.end(),
                     [&](const GridWait& wait) {
                       const bool own = wait.warp == warp.index && ((wait.lanes >> lane) & 1u) != 0;
                       return own || clocks.Before(wait.warp, wait.clock, warp.index, lane);
                     });
}

}  // namespace

/// False if the access conflicts with one of the launch before this one, which may still run.
bool GlobalChecker::CheckWaited(const Lane& lane, GlobalStamp write, GlobalStamp read) const {
  const auto is_open = [&](GlobalStamp stamp) { return stamp >= floor() && stamp < own_floor(); };
  const bool written = is_open(write);
  if (!written && !(lane.kind.store && is_open(read))) return true;
  if (HasWaited(lane.warp, lane.lane)) return true;
  const std::string where = lane.warp.worker->launch->memory->Describe(lane.address);
  Fault(lane.warp, lane.op, "unordered_work",
        fmt::format("Thread {} {} {}, which the launch before this one {}, and has not waited for "
                    "that launch: this one may start before it has ended "
                    "(cudaGridDependencySynchronize comes too late, or not in this thread).",
                    lane.thread, lane.kind.store ? "writes" : "reads", where,
                    written ? "writes" : "reads"),
        static_cast<int>(lane.lane), where);
  return false;
}

// Threads that run other blocks read and write the same stamps. Each stamp is consistent by itself.
bool GlobalChecker::CheckGranule(const Lane& lane, GlobalStamp& last_write, GlobalStamp& last_read,
                                 uint64_t granule) {
  const GlobalStamp write = __atomic_load_n(&last_write, __ATOMIC_RELAXED);
  const GlobalStamp read = __atomic_load_n(&last_read, __ATOMIC_RELAXED);
  const bool strong = lane.kind.strong();
  if (ended_ != first_ && !CheckWaited(lane, write, read)) return false;
  const auto where = [&] { return lane.warp.worker->launch->memory->Describe(lane.address); };
  if (lane.kind.reads() && write == 0) {
    Suspect(lane.warp, lane.op, lane.lane,
            {"uninitialized_global", fmt::format("Thread {} reads {}", lane.thread, where()),
             ", which nothing has written.", where(), granule << granule_shift_, true});
  }
  if (lane.kind.non_coherent && write >= own_floor()) {
    Fault(lane.warp, lane.op, "noncoherent_read",
          fmt::format("Thread {} reads {} through the read-only path (const __restrict__, __ldg), "
                      "but the same launch writes it, so the value may be outdated.",
                      lane.thread, where()),
          static_cast<int>(lane.lane), where());
    return false;
  }
  if (lane.kind.store && SameInstruction(write, lane, granule)) {
    CompareStores(lane.warp, lane.op, lane.kind, lane.lane, ThreadOf(write) % kLanes, lane.bytes);
  } else if (!Ordered(write, lane, false)) {
    const bool both_atomic =
        strong && HasFlag(write) && (!lane.kind.is_of_block || BlockOf(write) == lane.block);
    const bool ok = both_atomic ? CheckOutdated(lane, write) : ReportRace(lane, write, true);
    if (!ok) return false;
  } else if (lane.kind.reads() && !strong && write >= own_floor() && BlockOf(write) != lane.block) {
    WarnUnacquired(lane, write);
  }
  if (lane.kind.store && !Ordered(read, lane, true) && !ReportRace(lane, read, false)) return false;
  if (lane.kind.store) {
    __atomic_store_n(&last_write, lane.stamp | (strong ? kStampFlag : 0), __ATOMIC_RELAXED);
    if (read != 0) __atomic_store_n(&last_read, 0, __ATOMIC_RELAXED);
  } else if (!strong) {
    __atomic_store_n(&reads_used_, true, __ATOMIC_RELAXED);
    GlobalStamp readers = SeveralBlocks() << kBlockShift;
    if (Ordered(read, lane, true)) {
      readers = lane.stamp;
    } else if (BlockOf(read) == lane.block) {
      readers = AddReader(read, lane.stamp);
    } else {
      readers |= read & ((uint64_t{1} << kBlockShift) - 1);
    }
    __atomic_store_n(&last_read, readers, __ATOMIC_RELAXED);
  }
  return true;
}

/// Shows an access to a trial, before it is checked.
void GlobalChecker::Show(const Lane& lane, uint64_t granule, RaceTrial& trial) const {
  const uint64_t place = granule << granule_shift_;
  if (lane.kind.reads() && !lane.kind.strong()) {
    trial.OnRead(lane.warp, lane.op, lane.lane, place);
  }
  if (!lane.kind.store) return;
  trial.OnWrite(place, lane.kind.strong(), [&](uint64_t block, uint32_t thread, uint32_t clock) {
    const GlobalStamp stamp =
        Serial(block) << kBlockShift | uint64_t{clock} << kClockShift | thread;
    return IsOrdered(lane.warp, lane.lane, stamp, true);
  });
}

bool GlobalChecker::Check(Warp& warp, const Op* op, AccessKind kind, uint32_t active,
                          uint32_t bytes, uint64_t base, const uint32_t* offsets) {
  const uint32_t clock = warp.block->checker->clocks().of(warp.index).now;
  RaceTrial* trial = warp.worker->launch->request->trial;
  const bool shows = trial != nullptr && trial->sees_all();
  if (clock > kMostGlobalClock) {
    if (shows) trial->Fail();
    // The block has synchronised more often than stamps can count.
    for (uint32_t rest = kind.store ? active : 0; rest != 0; rest &= rest - 1) {
      MarkWritten(base + offsets[__builtin_ctz(rest)], bytes);
    }
    return true;
  }
  const uint64_t block = Serial(warp.block->number);
  const GlobalStamp common = block << kBlockShift | uint64_t{clock} << kClockShift |
                             uint64_t{LineId(warp, op)} << kLineShift;
  const WatchedRegion* region = nullptr;
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
    const uint32_t thread = warp.index * kLanes + lane;
    const uint64_t address = base + offsets[lane];
    const Lane access{.warp = warp,
                      .op = op,
                      .kind = kind,
                      .lane = lane,
                      .thread = thread,
                      .bytes = bytes,
                      .address = address,
                      .stamp = common | thread,
                      .block = block,
                      .active = active,
                      .base = base,
                      .offsets = offsets};
    if (region == nullptr || address < region->begin || address >= region->end) {
      region = Find(address);
      if (region == nullptr) continue;
    }
    const uint64_t origin = region->begin >> granule_shift_;
    const uint64_t last = (address + bytes - 1) >> granule_shift_;
    for (uint64_t granule = address >> granule_shift_; granule <= last; ++granule) {
      const uint64_t index = granule - origin;
      if (shows) Show(access, granule, *trial);
      if (!CheckGranule(access, region->writes[index], region->reads[index], granule)) return false;
    }
  }
  return true;
}

bool CheckGlobal(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
                 uint64_t base, const uint32_t* offsets) {
  if (kind.strong()) NoteStrong(warp, kind, true);
  return CheckerOf(*warp.worker->launch->memory)
      ->Check(warp, op, kind, active, bytes, base, offsets);
}

bool CheckGlobal(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
                 const uint32_t* low_halves) {
  const Hint& hint = warp.hints[op->count];
  if (hint.stamps == nullptr) return true;
  uint32_t offsets[kLanes] = {};
  for (int lane = 0; lane < kLanes; ++lane) {
    offsets[lane] = low_halves[lane] - static_cast<uint32_t>(hint.begin);
  }
  return CheckGlobal(warp, op, kind, active, bytes, hint.begin, offsets);
}

}  // namespace cupel::emu
