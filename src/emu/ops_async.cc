// cp.async and its groups. See async.h for when copies happen.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include "emu/async.h"
#include "emu/block.h"
#include "emu/handlers.h"

namespace cupel::emu {
namespace {

/// Adds what a lane copies from; false after an error. Shorter sources than the copy need not be
/// aligned to their own size.
bool AddSource(Warp& warp, const Op* op, int lane, uint64_t address, uint32_t length,
               uint32_t bytes, LaneAddresses* sources) {
  constexpr MemorySpace kGlobal = MemorySpace::kGlobal;
  if (length == bytes) return sources->Add(warp, op, kGlobal, lane, address, bytes, false);
  if (ResolveLane(warp, op, kGlobal, lane, address + length - 1, 1, false) == nullptr ||
      !sources->Add(warp, op, kGlobal, lane, address, 1, false)) {
    return false;
  }
  if (address % bytes == 0) return true;
  MemoryFault(warp, op, FaultKind::kMisaligned, kGlobal, lane, address, bytes, false);
  return false;
}

/// src: shared address, global address, bytes of the source or -1, predicate "ignore" or -1; imm
/// and target: their displacements; flops: bytes to fill.
const Op* CopyAsync(Warp& warp, const Op* op) {
  LaneCopies copies;
  copies.op = op;
  copies.lanes = warp.active;
  copies.bytes = op->flops;
  const uint32_t ignored = op->src[3] < 0 ? 0 : MaskAt(warp, op->src[3]);
  const uint32_t poison = warp.worker->launch->poison;
  LaneAddresses sources, targets;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const auto l = static_cast<size_t>(lane);
    const uint32_t asked =
        op->src[2] < 0 ? copies.bytes : At<const uint32_t>(warp, op->src[2])[lane];
    const uint32_t length = ((ignored >> lane) & 1u) != 0 ? 0 : std::min(asked, copies.bytes);
    const auto to = At<const uint32_t>(warp, op->src[0])[lane] + static_cast<uint32_t>(op->target);
    const uint64_t from =
        At<const uint64_t>(warp, op->src[1])[lane] + static_cast<uint64_t>(op->imm);
    if (!targets.Add(warp, op, MemorySpace::kShared, lane, to, copies.bytes, true)) return nullptr;
    if (length != 0) {
      if (!AddSource(warp, op, lane, from, length, copies.bytes, &sources)) return nullptr;
      copies.from[l] = sources.host[lane];
    }
    copies.to[l] = to;
    copies.length[l] = length;
  }
  if (warp.counting) {
    if (sources.global != 0) CountGlobal(warp, op, sources.global, sources.global_offsets);
    CountShared(warp, op, warp.active, copies.bytes, targets.offsets);
  }
  AccessKind load, store;
  store.store = true;
  // Of partial sources only the beginning is checked for races.
  if (!sources.Observe(warp, op, load, 4) || !targets.Observe(warp, op, store, copies.bytes)) {
    return nullptr;
  }
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    std::byte* target = targets.host[__builtin_ctz(rest)];
    for (uint32_t i = 0; i < copies.bytes; i += 4) std::memcpy(target + i, &poison, 4);
  }
  AsyncOf(warp).QueueOf(warp).Push(warp, copies);
  return op + 1;
}

const Op* CommitGroup(Warp& warp, const Op* op) {
  AsyncOf(warp).QueueOf(warp).Commit(warp.active);
  return op + 1;
}
/// src[0]: how many groups may stay under way; -1: wait for everything.
const Op* WaitGroup(Warp& warp, const Op* op) {
  CopyQueue& queue = AsyncOf(warp).QueueOf(warp);
  const bool fine =
      op->src[0] < 0 ? queue.Finish(warp, warp.active)
                     : queue.Wait(warp, warp.active,
                                  At<const uint32_t>(warp, op->src[0])[__builtin_ctz(warp.active)]);
  return fine ? op + 1 : nullptr;
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
}

}  // namespace cupel::emu
