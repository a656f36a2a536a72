// mbarriers and bulk copies. See async.h for when copies happen.
//
// A wait that fails ends the warp's turn, which try_wait may do. test_wait also ends it: a loop of
// test_wait would otherwise block the threads that it waits for. Waits that can never complete are
// reported as a deadlock.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emu/check/race_checks.h"
#include "emu/check/report.h"
#include "emu/core/block_state.h"
#include "emu/core/handler_table.h"
#include "emu/core/kernel.h"
#include "emu/core/memory.h"
#include "emu/core/op.h"
#include "emu/core/op_flags.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/cost/counters.h"
#include "emu/ops/access.h"
#include "emu/ops/handlers.h"
#include "emu/sync/async.h"
#include "emu/sync/groups.h"

namespace cupel::emu {
namespace {

constexpr uint64_t kPhaseShift = 32;

/// The address of operand `source` in a lane, within shared memory. Returns false after an error.
bool SharedOffset(Warp& warp, const Op* op, int source, int64_t displacement, bool generic,
                  int lane, uint32_t bytes, uint32_t* offset) {
  uint64_t address =
      generic
          ? At<const uint64_t>(warp, op->src[source])[lane] + static_cast<uint64_t>(displacement)
          : At<const uint32_t>(warp, op->src[source])[lane] + static_cast<uint32_t>(displacement);
  if (!generic) address = static_cast<uint32_t>(address);
  if (generic && address - kSharedWindow >= (uint64_t{1} << 32)) {
    MemoryFault(warp, op, FaultKind::kOutOfBounds, MemorySpace::kShared, lane, address, bytes,
                true);
    return false;
  }
  if (generic) address -= kSharedWindow;
  *offset = static_cast<uint32_t>(address);
  return ResolveLane(warp, op, MemorySpace::kShared, lane, address, bytes, true) != nullptr;
}

/// The barrier that the lane's operand 0 names, or null after an error.
MemoryBarrier* BarrierOf(Warp& warp, const Op* op, int lane, uint32_t* offset) {
  const bool generic = (op->aux & kMbarrierGeneric) != 0;
  if (!SharedOffset(warp, op, 0, op->target, generic, lane, 8, offset)) return nullptr;
  MemoryBarrier* barrier = AsyncOf(warp).Find(*offset);
  if (barrier == nullptr) {
    Fault(warp, op, "invalid_barrier",
          "The kernel uses an mbarrier that is not initialised or was invalidated.");
  }
  return barrier;
}

/// Calls f(lane, offset, barrier) for the barrier that each active lane names. Stops when f returns
/// false (after an error).
template <class F>
const Op* ForEachBarrier(Warp& warp, const Op* op, F f) {
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    uint32_t offset = 0;
    MemoryBarrier* barrier = BarrierOf(warp, op, lane, &offset);
    if (barrier == nullptr || !f(lane, offset, *barrier)) return nullptr;
  }
  return op + 1;
}

const Op* Initialise(Warp& warp, const Op* op) {
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    uint32_t offset = 0;
    if (!SharedOffset(warp, op, 0, op->target, (op->aux & kMbarrierGeneric) != 0, lane, 8,
                      &offset)) {
      return nullptr;
    }
    const uint32_t count = At<const uint32_t>(warp, op->src[1])[lane];
    if (count == 0 || count >= (1u << 20)) {
      return Fault(warp, op, "invalid_barrier",
                   "The initial count of an mbarrier must be 1 to 2^20 - 1.");
    }
    AsyncOf(warp).Create(offset, count);
  }
  return op + 1;
}

const Op* Invalidate(Warp& warp, const Op* op) {
  return ForEachBarrier(warp, op, [&](int, uint32_t offset, MemoryBarrier&) {
    AsyncOf(warp).Remove(offset);
    return true;
  });
}

/// src: barrier; count or -1; expected bytes or -1. dst: the previous state, or -1.
const Op* Arrive(Warp& warp, const Op* op) {
  AsyncState& async = AsyncOf(warp);
  return ForEachBarrier(warp, op, [&](int lane, uint32_t, MemoryBarrier& barrier) {
    const uint32_t count = op->src[1] < 0 ? 1 : At<const uint32_t>(warp, op->src[1])[lane];
    if (op->src[2] >= 0) barrier.bytes += At<const uint32_t>(warp, op->src[2])[lane];
    if (count > barrier.pending) {
      Fault(warp, op, "invalid_barrier",
            "More threads arrive at an mbarrier than its count allows in one phase.");
      return false;
    }
    if (op->dst >= 0) {
      At<uint64_t>(warp, op->dst)[lane] = barrier.phase << kPhaseShift | barrier.pending;
    }
    if ((op->aux & kMbarrierDrop) != 0) barrier.expected -= std::min(barrier.expected, count);
    barrier.pending -= count;
    async.Advance(*warp.block, barrier);
    return true;
  });
}

/// expect_tx, or complete_tx if kMbarrierComplete is set. src: barrier, bytes.
const Op* ExpectBytes(Warp& warp, const Op* op) {
  AsyncState& async = AsyncOf(warp);
  return ForEachBarrier(warp, op, [&](int lane, uint32_t, MemoryBarrier& barrier) {
    const int64_t bytes = At<const uint32_t>(warp, op->src[1])[lane];
    const bool completes = (op->aux & kMbarrierComplete) != 0;
    barrier.bytes += completes ? -bytes : bytes;
    if (completes) async.Advance(*warp.block, barrier);
    return true;
  });
}

/// src: barrier; state or parity. dst: whether that phase is complete.
const Op* TestWait(Warp& warp, const Op* op) {
  AsyncState& async = AsyncOf(warp);
  const uint32_t active = warp.active;
  uint32_t done = 0;
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    uint32_t offset = 0;
    if (BarrierOf(warp, op, lane, &offset) == nullptr) return nullptr;
    if (!async.Deliver(*warp.block, offset)) return nullptr;
    const MemoryBarrier* barrier = async.Find(offset);
    bool complete = false;
    if ((op->aux & kMbarrierParity) != 0) {
      const uint32_t parity = At<const uint32_t>(warp, op->src[1])[lane];
      complete = (barrier->phase & 1u) != (parity & 1u);
    } else {
      complete = barrier->phase != At<const uint64_t>(warp, op->src[1])[lane] >> kPhaseShift;
    }
    done |= uint32_t{complete} << lane;
  }
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
  return ForEachBarrier(warp, op, [&](int lane, uint32_t offset, MemoryBarrier& barrier) {
    // Without .noinc the arrival is in addition to the barrier's count.
    if ((op->aux & kMbarrierNoIncrement) == 0) ++barrier.pending;
    Delivery delivery;
    delivery.barrier = offset;
    delivery.warp = &warp;
    delivery.lanes = 1u << lane;
    delivery.number = async.QueueOf(warp).last_number();
    async.Expect(*warp.block, delivery);
    return true;
  });
}

/// Host address of a bulk copy's global side, or null after an error.
std::byte* GlobalRange(Warp& warp, const Op* op, int lane, uint64_t address, uint32_t bytes,
                       bool store) {
  const GlobalMemory& memory = *warp.worker->launch->memory;
  if (!memory.Contains(address, bytes)) {
    MemoryFault(warp, op, FaultKind::kOutOfBounds, MemorySpace::kGlobal, lane, address, bytes,
                store);
    return nullptr;
  }
  if (address % 16 != 0) {
    MemoryFault(warp, op, FaultKind::kMisaligned, MemorySpace::kGlobal, lane, address, 16, store);
    return nullptr;
  }
  return ResolveLane(warp, op, MemorySpace::kGlobal, lane, address, 16, store);
}
std::byte* SharedRange(Warp& warp, const Op* op, int lane, uint32_t offset, uint32_t bytes,
                       bool store) {
  const bool outside = bytes > warp.shared_bytes || offset > warp.shared_bytes - bytes;
  if (outside || offset % 16 != 0) {
    MemoryFault(warp, op, outside ? FaultKind::kOutOfBounds : FaultKind::kMisaligned,
                MemorySpace::kShared, lane, offset, outside ? bytes : 16, store);
    return nullptr;
  }
  return warp.shared + offset;
}

void CountBulk(Warp& warp, const Op* op, uint64_t address, uint32_t bytes) {
  for (uint32_t done = 0; done < bytes; done += 16 * kLanes) {
    uint32_t offsets[kLanes] = {};
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < kLanes && done + 16 * i < bytes; ++i) {
      offsets[i] = static_cast<uint32_t>(address) + done + 16 * i;
      lanes |= 1u << i;
    }
    CountGlobal(warp, op, lanes, 0, offsets);
  }
}

/// src: shared address, global address, bytes, barrier or -1 (then a bulk group). aux: an
/// AccessShape of 16 bytes, a store if the copy goes to global memory.
const Op* BulkCopyAsync(Warp& warp, const Op* op) {
  AsyncState& async = AsyncOf(warp);
  const bool to_global = AccessShape::Unpack(op->aux).store;
  const uint32_t poison = warp.worker->launch->poison;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const auto offset = At<const uint32_t>(warp, op->src[0])[lane];
    const uint64_t address = At<const uint64_t>(warp, op->src[1])[lane];
    const uint32_t bytes = At<const uint32_t>(warp, op->src[2])[lane];
    if (bytes % 16 != 0) {
      return Fault(warp, op, "misaligned",
                   "The size of a bulk copy must be a multiple of 16 bytes.");
    }
    if (bytes == 0) continue;
    warp.slice -= bytes / 256;  // a copy takes longer than an instruction
    std::byte* shared = SharedRange(warp, op, lane, offset, bytes, !to_global);
    std::byte* global = GlobalRange(warp, op, lane, address, bytes, to_global);
    if (shared == nullptr || global == nullptr) return nullptr;
    if (warp.counting) CountBulk(warp, op, address, bytes);
    uint32_t offsets[kLanes] = {};
    offsets[lane] = offset;
    if (warp.checking && !CheckShared(warp, op, !to_global, false, 1u << lane, bytes, offsets)) {
      return nullptr;
    }
    Delivery delivery;
    delivery.copy = {op,   to_global ? shared : global, to_global ? global : shared, bytes, 0, lane,
                     &warp};
    if (op->src[3] < 0) {
      async.QueueOf(warp).PushBulk(delivery.copy);
      continue;
    }
    for (uint32_t i = 0; i < bytes; i += 4) std::memcpy(shared + i, &poison, 4);
    if (warp.checking) NoteCopyUnderWay(warp, 1u << lane, bytes, offsets);
    delivery.barrier = At<const uint32_t>(warp, op->src[3])[lane];
    if (async.Find(delivery.barrier) == nullptr) {
      return Fault(warp, op, "invalid_barrier",
                   "A bulk copy reports to an mbarrier that was not initialised.");
    }
    async.Expect(*warp.block, delivery);
  }
  return op + 1;
}

const Op* CommitBulk(Warp& warp, const Op* op) {
  AsyncOf(warp).QueueOf(warp).CommitBulk(warp.active);
  return op + 1;
}
const Op* WaitBulk(Warp& warp, const Op* op) {
  const uint32_t pending = At<const uint32_t>(warp, op->src[0])[__builtin_ctz(warp.active)];
  AsyncOf(warp).QueueOf(warp).WaitBulk(warp.active, pending);
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
  add("@bulk", &BulkCopyAsync);
  add("@bulk.commit", &CommitBulk);
  add("@bulk.wait", &WaitBulk);
}

}  // namespace cupel::emu
