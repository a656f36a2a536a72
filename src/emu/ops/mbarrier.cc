// mbarriers. See async.h for when copies happen.
//
// A wait that fails ends the warp's turn, which try_wait may do. test_wait also ends it: a loop of
// test_wait would otherwise block the threads that it waits for. Waits that can never complete are
// reported as a deadlock.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "emu/check/race_report.h"
#include "emu/check/report.h"
#include "emu/check/shared_race.h"
#include "emu/check/sync_notes.h"
#include "emu/core/block_state.h"
#include "emu/core/cluster.h"
#include "emu/core/handler_table.h"
#include "emu/core/kernel.h"
#include "emu/core/memory.h"
#include "emu/core/op.h"
#include "emu/core/op_flags.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/ops/access.h"
#include "emu/ops/handlers.h"
#include "emu/sync/async.h"
#include "emu/sync/groups.h"

namespace cupel::emu {
namespace {

constexpr uint64_t kPhaseShift = 32;
constexpr uint32_t kBarrierBytes = 8;

/// The place that a lane's operand 0 names. Returns false after an error.
bool BarrierPlace(Warp& warp, const Op* op, int lane, SharedPlace* place) {
  uint64_t address = 0;
  if ((op->aux & kMbarrierGeneric) != 0) {
    address = At<const uint64_t>(warp, op->src[0])[lane] + static_cast<uint64_t>(op->target);
    if (address - kSharedWindow >= kWindowBytes) {
      MemoryFault(warp, op, FaultKind::kOutOfBounds, MemorySpace::kShared, lane, address,
                  kBarrierBytes, true);
      return false;
    }
    address -= kSharedWindow;
  } else {
    address = At<const uint32_t>(warp, op->src[0])[lane] + static_cast<uint32_t>(op->target);
  }
  return FindSharedBytes(warp, op, lane, static_cast<uint32_t>(address), kBarrierBytes,
                         kBarrierBytes, true, place);
}

/// The barrier at a place, for use by a lane; null after an error.
MemoryBarrier* FindBarrier(Warp& warp, const Op* op, int lane, const SharedPlace& place) {
  MemoryBarrier* barrier = AsyncOf(*place.block).Find(place.offset);
  if (barrier == nullptr) {
    Fault(warp, op, "invalid_barrier",
          "The kernel uses an mbarrier that is not initialised or was invalidated.", lane);
    return nullptr;
  }
  const auto thread = warp.index * kLanes + static_cast<uint32_t>(lane);
  if (!warp.checking || place.block != warp.block || barrier->init_thread == thread ||
      warp.block->checker->clocks().Before(barrier->init_thread / kLanes, barrier->init_clock,
                                           warp.index, static_cast<uint32_t>(lane))) {
    return barrier;
  }
  const int line = LineOfId(warp, LineId(warp, barrier->init));
  Fault(warp, op, "shared_race",
        fmt::format("Thread {} uses an mbarrier that thread {} initialised{}, and nothing orders "
                    "the two: a __syncthreads is missing.",
                    thread, barrier->init_thread,
                    line > 0 ? fmt::format(" at line {}", line) : std::string()),
        lane);
  return nullptr;
}

/// Calls f(lane, barrier, place) for the barrier that each active lane names. Stops when f returns
/// false (after an error).
template <class F>
const Op* ForEachBarrier(Warp& warp, const Op* op, F f) {
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    SharedPlace place;
    if (!BarrierPlace(warp, op, lane, &place)) return nullptr;
    MemoryBarrier* barrier = FindBarrier(warp, op, lane, place);
    if (barrier == nullptr || !f(lane, *barrier, place)) return nullptr;
  }
  return op + 1;
}

/// The executing thread and what it knows arrive at the barrier.
void NoteArrival(Warp& warp, const Op* op, MemoryBarrier& barrier, const SharedPlace& place) {
  if (!warp.checking || (op->aux & kMbarrierRelaxed) != 0) return;
  if (place.block == warp.block) {
    warp.block->checker->clocks().Arrive(warp.index, barrier.arrived);
  } else if ((op->aux & kMbarrierBlockScope) == 0) {
    NoteRelease(warp);
    barrier.has_remote_arrivals = true;
  }
}

const Op* Initialise(Warp& warp, const Op* op) {
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    SharedPlace place;
    if (!BarrierPlace(warp, op, lane, &place)) return nullptr;
    const uint32_t count = At<const uint32_t>(warp, op->src[1])[lane];
    if (count == 0 || count >= (1u << 20)) {
      return Fault(warp, op, "invalid_barrier",
                   "The initial count of an mbarrier must be 1 to 2^20 - 1.");
    }
    if (place.block != warp.block) {
      return Fault(warp, op, "invalid_barrier",
                   "An mbarrier can be initialised only by a thread of its own block.", lane);
    }
    MemoryBarrier& barrier = AsyncOf(warp).Create(place.offset, count);
    barrier.init = op;
    barrier.init_thread = warp.index * kLanes + static_cast<uint32_t>(lane);
    if (warp.checking) barrier.init_clock = warp.block->checker->clocks().of(warp.index).now;
  }
  if (warp.checking) NoteWarpSync(warp, 0);  // what comes later has another time
  return op + 1;
}

const Op* Invalidate(Warp& warp, const Op* op) {
  return ForEachBarrier(warp, op, [&](int, MemoryBarrier&, const SharedPlace& place) {
    AsyncOf(*place.block).Remove(place.offset);
    return true;
  });
}

/// src: barrier; count or -1; expected bytes or -1. dst: the previous state, or -1.
const Op* Arrive(Warp& warp, const Op* op) {
  return ForEachBarrier(warp, op, [&](int lane, MemoryBarrier& barrier, const SharedPlace& place) {
    const uint32_t count = op->src[1] < 0 ? 1 : At<const uint32_t>(warp, op->src[1])[lane];
    if (op->src[2] >= 0) barrier.bytes += At<const uint32_t>(warp, op->src[2])[lane];
    if (count > barrier.pending) {
      Fault(
          warp, op, "invalid_barrier",
          barrier.pending == 0
              ? fmt::format("All threads have already arrived in this phase of the mbarrier, which "
                            "still waits for {} bytes of copies: wait until the buffer is free "
                            "before the next copy to it is announced.",
                            barrier.bytes)
              : std::string(
                    "More threads arrive at an mbarrier than its count allows in one phase."),
          lane);
      return false;
    }
    if (op->dst >= 0) {
      At<uint64_t>(warp, op->dst)[lane] = barrier.phase << kPhaseShift | barrier.pending;
    }
    if ((op->aux & kMbarrierDrop) != 0) barrier.expected -= std::min(barrier.expected, count);
    barrier.pending -= count;
    NoteArrival(warp, op, barrier, place);
    AsyncOf(*place.block).Advance(barrier);
    return true;
  });
}

/// expect_tx, or complete_tx if kMbarrierComplete is set. src: barrier, bytes.
const Op* ExpectBytes(Warp& warp, const Op* op) {
  return ForEachBarrier(warp, op, [&](int lane, MemoryBarrier& barrier, const SharedPlace& place) {
    const int64_t bytes = At<const uint32_t>(warp, op->src[1])[lane];
    const bool completes = (op->aux & kMbarrierComplete) != 0;
    barrier.bytes += completes ? -bytes : bytes;
    if (completes) AsyncOf(*place.block).Advance(barrier);
    return true;
  });
}

/// Whether the phase that the lane asks for is complete.
bool IsComplete(const Warp& warp, const Op* op, int lane, const MemoryBarrier& barrier) {
  if ((op->aux & kMbarrierParity) != 0) {
    return (barrier.phase & 1u) != (At<const uint32_t>(warp, op->src[1])[lane] & 1u);
  }
  return barrier.phase != At<const uint64_t>(warp, op->src[1])[lane] >> kPhaseShift;
}

/// src: barrier; state or parity. dst: whether that phase is complete.
const Op* TestWait(Warp& warp, const Op* op) {
  const uint32_t active = warp.active;
  uint32_t done = 0;
  const Op* next =
      ForEachBarrier(warp, op, [&](int lane, MemoryBarrier& barrier, const SharedPlace& place) {
        if (place.block != warp.block) {
          Fault(warp, op, "invalid_barrier",
                "A thread can wait only at an mbarrier of its own block.", lane);
          return false;
        }
        if (!IsComplete(warp, op, lane, barrier) && !AsyncOf(warp).Deliver(warp, barrier)) {
          return false;
        }
        if (!IsComplete(warp, op, lane, barrier)) return true;
        done |= 1u << lane;
        if (warp.checking && (op->aux & kMbarrierRelaxed) == 0) {
          warp.block->checker->clocks().Leave(warp.index, 1u << lane, barrier.completed);
          if (barrier.has_remote_arrivals) NoteAcquire(warp);
        }
        for (const auto& [thread, number] : barrier.commits) {
          AsyncOf(warp).TensorOf(warp).Observe(warp, thread, number);
        }
        return true;
      });
  if (next == nullptr) return nullptr;
  uint32_t& mask = MaskAt(warp, op->dst);
  mask = (mask & ~active) | done;
  if (done == active) {
    return op + 1;
  }
  warp.spin += 1024;  // other lanes of this warp may have to arrive first
  return EndSlice(warp, op + 1);
}

const Op* PendingCount(Warp& warp, const Op* op) {
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    At<uint32_t>(warp, op->dst)[lane] =
        static_cast<uint32_t>(At<const uint64_t>(warp, op->src[0])[lane]);
  }
  return op + 1;
}

/// cp.async.mbarrier.arrive: arrives when the lane's earlier copies are complete.
const Op* ArriveAfterCopies(Warp& warp, const Op* op) {
  AsyncState& async = AsyncOf(warp);
  return ForEachBarrier(warp, op, [&](int lane, MemoryBarrier& barrier, const SharedPlace& place) {
    // Without .noinc the arrival is in addition to the barrier's count.
    if ((op->aux & kMbarrierNoIncrement) == 0) ++barrier.pending;
    Delivery delivery;
    delivery.barrier = place.offset;
    delivery.warp = &warp;
    delivery.lanes = 1u << lane;
    delivery.number = async.QueueOf(warp).last_number();
    return async.Expect(warp, std::move(delivery));
  });
}

/// The barrier at `place` gets an arrival when the lane's earlier tcgen05 operations are complete.
bool CommitTo(Warp& warp, const Op* op, int lane, const SharedPlace& place) {
  if (FindBarrier(warp, op, lane, place) == nullptr) return false;
  Delivery delivery;
  delivery.barrier = place.offset;
  delivery.is_commit = true;
  delivery.warp = &warp;
  delivery.lanes = 1u << lane;
  delivery.number =
      AsyncOf(warp).TensorOf(warp).LastOf(warp.index * kLanes + static_cast<uint32_t>(lane));
  if (warp.checking) {
    delivery.clock = warp.block->checker->clocks().of(warp.index).now;
    NoteWarpSync(warp, 0);  // what comes later has another time
  }
  return AsyncOf(*place.block).Expect(warp, std::move(delivery));
}

/// tcgen05.commit. src: barrier; the blocks of the cluster that get an arrival, or -1.
const Op* Commit(Warp& warp, const Op* op) {
  const ClusterState& cluster = *warp.block->cluster;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    SharedPlace place;
    if (!BarrierPlace(warp, op, lane, &place)) return nullptr;
    if (op->src[1] < 0) {
      if (!CommitTo(warp, op, lane, place)) return nullptr;
      continue;
    }
    uint32_t blocks = At<const uint32_t>(warp, op->src[1])[lane] & 0xffffu;
    for (; blocks != 0; blocks &= blocks - 1) {
      const auto rank = static_cast<size_t>(__builtin_ctz(blocks));
      if (rank >= cluster.blocks.size() || cluster.blocks[rank]->live_threads == 0) {
        return Fault(warp, op, "exited_block",
                     fmt::format("The commit names block {} of the cluster, which has exited or "
                                 "does not exist.",
                                 rank),
                     lane);
      }
      if (!CommitTo(warp, op, lane, {cluster.blocks[rank].get(), place.offset})) return nullptr;
    }
  }
  return op + 1;
}

}  // namespace

void RegisterMemoryBarriers(HandlerTable& table) {
  auto add = [&](const char* key, Handler handler) {
    Entry entry;
    entry.full = entry.masked = handler;
    table.Add(key, entry);
  };
  add("@mbarrier.init", &Initialise);
  add("@mbarrier.inval", &Invalidate);
  add("@mbarrier.arrive", &Arrive);
  add("@mbarrier.expect", &ExpectBytes);
  add("@mbarrier.wait", &TestWait);
  add("@mbarrier.pending", &PendingCount);
  add("@cp.async.arrive", &ArriveAfterCopies);
  add("@tcgen05.commit", &Commit);
}

}  // namespace cupel::emu
