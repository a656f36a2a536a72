// cp.async and its groups (async.h says when copies happen), and the wait for the launch before.
// SPDX-License-Identifier: Apache-2.0
#include "emu/sync/async.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "emu/check/race_checks.h"
#include "emu/check/report.h"
#include "emu/check/shared_race.h"
#include "emu/core/block_state.h"
#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/cost/counters.h"
#include "emu/ops/access.h"
#include "emu/ops/handlers.h"

namespace cupel::emu {
namespace {

/// The source of a lane's copy, or null after an error. A source shorter than the copy needs no
/// alignment to its own size.
const std::byte* CopySource(Warp& warp, const Op* op, int lane, uint64_t address, uint32_t length,
                            uint32_t bytes) {
  if (length == bytes) {
    return ResolveLane(warp, op, MemorySpace::kGlobal, lane, address, bytes, false);
  }
  const std::byte* first = ResolveLane(warp, op, MemorySpace::kGlobal, lane, address, 1, false);
  if (first == nullptr || ResolveLane(warp, op, MemorySpace::kGlobal, lane, address + length - 1, 1,
                                      false) == nullptr) {
    return nullptr;
  }
  if (address % bytes != 0) {
    MemoryFault(warp, op, FaultKind::kMisaligned, MemorySpace::kGlobal, lane, address, bytes,
                false);
    return nullptr;
  }
  return first;
}

/// Lanes may read from several buffers, and fewer bytes than they write.
bool CheckSources(Warp& warp, const Op* op, const LaneCopies& copies, uint32_t reading) {
  if (!warp.watching) return true;
  const uint32_t zero[kLanes] = {};
  for (uint32_t rest = reading; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(__builtin_ctz(rest));
    const uint64_t address = reinterpret_cast<uint64_t>(copies.from[lane]) - warp.bias;
    if (!CheckGlobal(warp, op, {}, 1u << lane, copies.length[lane], address, zero)) return false;
  }
  return true;
}

/// src: shared address, global address, bytes of the source or -1, predicate "ignore" or -1. imm
/// and target: their displacements. flops: bytes to fill.
const Op* CopyAsync(Warp& warp, const Op* op) {
  LaneCopies copies;
  copies.op = op;
  copies.lanes = warp.active;
  copies.bytes = op->flops;
  const uint32_t ignored = op->src[3] < 0 ? 0 : MaskAt(warp, op->src[3]);
  const uint32_t poison = warp.worker->launch->poison;
  std::array<uint32_t, kLanes> sources{};
  uint32_t reading = 0;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const auto l = static_cast<size_t>(lane);
    const uint32_t asked =
        op->src[2] < 0 ? copies.bytes : At<const uint32_t>(warp, op->src[2])[lane];
    const uint32_t length = ((ignored >> lane) & 1u) != 0 ? 0 : std::min(asked, copies.bytes);
    const auto to = At<const uint32_t>(warp, op->src[0])[lane] + static_cast<uint32_t>(op->target);
    const uint64_t from =
        At<const uint64_t>(warp, op->src[1])[lane] + static_cast<uint64_t>(op->imm);
    std::byte* target = ResolveLane(warp, op, MemorySpace::kShared, lane, to, copies.bytes, true);
    if (target == nullptr) return nullptr;
    if (length != 0) {
      copies.from[l] = CopySource(warp, op, lane, from, length, copies.bytes);
      if (copies.from[l] == nullptr) return nullptr;
      reading |= 1u << lane;
    }
    copies.to[l] = to;
    copies.length[l] = length;
    sources[l] = static_cast<uint32_t>(from);
    for (uint32_t i = 0; i < copies.bytes; i += 4) std::memcpy(target + i, &poison, 4);
  }
  if (warp.counting) {
    if (reading != 0) CountGlobal(warp, op, reading, 0, sources.data());
    CountShared(warp, op, warp.active, copies.bytes, copies.to.data());
  }
  if (!CheckSources(warp, op, copies, reading)) return nullptr;
  if (warp.checking) {
    if (!CheckShared(warp, op, true, false, warp.active, copies.bytes, copies.to.data())) {
      return nullptr;
    }
    NoteCopyUnderWay(warp, op, warp.active, copies.bytes, copies.to.data());
  }
  AsyncOf(warp).QueueOf(warp).Push(warp, copies);
  return op + 1;
}

const Op* CommitGroup(Warp& warp, const Op* op) {
  AsyncOf(warp).QueueOf(warp).Commit(warp.active);
  return op + 1;
}
/// src[0]: how many groups may remain in progress; -1: wait for all.
const Op* WaitGroup(Warp& warp, const Op* op) {
  CopyQueue& queue = AsyncOf(warp).QueueOf(warp);
  const bool fine =
      op->src[0] < 0 ? queue.Finish(warp, warp.active)
                     : queue.Wait(warp, warp.active,
                                  At<const uint32_t>(warp, op->src[0])[__builtin_ctz(warp.active)]);
  return fine ? op + 1 : nullptr;
}

/// Launches run one after another, so only the checks are concerned.
const Op* WaitForGrid(Warp& warp, const Op* op) {
  if (warp.watching) {
    std::vector<GridWait>& waits = warp.block->grid_waits;
    const bool is_known = std::any_of(waits.begin(), waits.end(), [&](const GridWait& wait) {
      return wait.warp == warp.index && (warp.active & ~wait.lanes) == 0;
    });
    const uint32_t clock = warp.block->checker->clocks().of(warp.index).now;
    if (!is_known) waits.push_back({warp.index, clock, warp.active});
  }
  return op + 1;
}

const Op* SetRegisters(Warp& warp, const Op* op) {
  const uint32_t at_launch = warp.worker->launch->request->registers;
  if (at_launch > 0) AsyncOf(warp).registers().Set(warp, op, op->flops, at_launch);
  return op + 1;
}

}  // namespace

void RegisterAsync(HandlerTable& table) {
  auto add = [&](const char* key, Handler handler) {
    Entry entry;
    entry.full = entry.masked = handler;
    table.Add(key, entry);
  };
  add("@cp.async", &CopyAsync);
  add("@cp.async.commit", &CommitGroup);
  add("@cp.async.wait", &WaitGroup);
  add("@griddep.wait", &WaitForGrid);
  add("@setmaxnreg", &SetRegisters);
}

}  // namespace cupel::emu
