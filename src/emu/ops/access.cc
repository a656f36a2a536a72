// The slow path of loads and stores, lane by lane. It handles accesses to several allocations,
// generic addresses of all kinds, indexed local memory, kernel parameters, and every error.
// SPDX-License-Identifier: Apache-2.0
#include "emu/ops/access.h"

#include <algorithm>
#include <cstring>

#include "emu/check/global_race.h"
#include "emu/check/race_checks.h"
#include "emu/check/report.h"
#include "emu/check/shared_race.h"
#include "emu/check/sync_notes.h"
#include "emu/core/cluster.h"
#include "emu/core/lane_addresses.h"
#include "emu/core/launch_state.h"
#include "emu/core/memory.h"
#include "emu/core/op.h"
#include "emu/core/slots.h"
#include "emu/core/spaces.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/cost/counters.h"

namespace cupel::emu {
namespace {

constexpr uint64_t kHintBytes = uint64_t{1} << 31;  // quick handlers use 31-bit offsets

bool LocalInBounds(const Warp& warp, uint64_t address, uint32_t bytes) {
  return bytes <= warp.local_bytes && address <= warp.local_bytes - bytes;
}

/// Copies one element between local memory, which is interleaved, and `cell`.
void CopyLocal(const Warp& warp, int lane, uint64_t address, uint32_t bytes, bool store,
               std::byte* cell) {
  for (uint32_t i = 0; i < bytes; ++i) {
    std::byte* at = LocalByte(warp, lane, address + i);
    (store ? *at : cell[i]) = store ? cell[i] : *at;
  }
}

/// Full checks of accesses to shared memory of other blocks. Returns false after an error.
bool CheckSiblings(Warp& warp, const Op* op, AccessKind kind, uint32_t bytes,
                   const LaneAddresses& lanes) {
  if (kind.strong()) NoteStrong(warp, kind, true);
  for (uint32_t rest = lanes.siblings; rest != 0;) {
    const uint8_t rank = lanes.ranks[__builtin_ctz(rest)];
    uint32_t same = 0;
    for (uint32_t i = rest; i != 0; i &= i - 1) {
      if (lanes.ranks[__builtin_ctz(i)] == rank) same |= i & -i;
    }
    if (!CheckSibling(warp, op, kind, same, bytes, lanes.offsets,
                      *warp.block->cluster->blocks[rank])) {
      return false;
    }
    rest &= ~same;
  }
  return true;
}

}  // namespace

bool FindAllocation(const Warp& warp, uint64_t address, bool store, Hint& hint) {
  LaunchState& launch = *warp.worker->launch;
  const Allocation* allocation = launch.memory->Find(address);
  if (allocation == nullptr) return false;
  if (!allocation->reachable || (store && allocation->read_only)) return false;
  hint = {allocation->begin, allocation->end};
  if (hint.end - hint.begin > kHintBytes) {
    // The hint covers only a window around the address, small enough for 31-bit offsets.
    const uint64_t offset = (address - hint.begin) / (kHintBytes / 2) * (kHintBytes / 2);
    hint.begin += offset;
    hint.end = std::min(hint.end, hint.begin + kHintBytes);
  }
  if (warp.watching) hint.stamps = CheckerOf(*launch.memory)->WriteStamps(hint.begin);
  return true;
}

std::byte* ResolveLane(Warp& warp, const Op* op, MemorySpace space, int lane, uint64_t address,
                       uint32_t bytes, bool store) {
  CHECK(bytes != 0);
  const MemorySpace requested = space;
  space = SpaceOfAddress(space, &address);
  const uint64_t in_space = address;
  auto fault = [&](FaultKind kind) -> std::byte* {
    MemoryFault(warp, op, kind, space, lane, in_space, bytes, store);
    return nullptr;
  };
  uint64_t limit = 0;
  std::byte* base = nullptr;
  if (space == MemorySpace::kShared) {
    const SharedPlace place = FindShared(*warp.block, address);
    limit = warp.shared_bytes;
    if (place.block == nullptr) return fault(FaultKind::kOutOfBounds);
    if (place.block != warp.block) {
      if (requested == MemorySpace::kShared) return fault(FaultKind::kOutOfBounds);
      if (place.block->live_threads == 0) return fault(FaultKind::kExited);
    }
    base = place.block->memory;
    address = place.offset;
  } else if (space == MemorySpace::kParam && !store) {
    limit = warp.param_bytes;
    base = const_cast<std::byte*>(warp.param);  // only read: not for stores
  } else if (space == MemorySpace::kGlobal) {
    Hint& hint = warp.hints[op->count];
    const bool inside = address >= hint.begin && address < hint.end && bytes <= hint.end - address;
    if (!inside) {
      const Allocation* allocation = warp.worker->launch->memory->Find(address);
      if (allocation == nullptr || bytes > allocation->end - address) {
        return fault(FaultKind::kOutOfBounds);
      }
      if (!allocation->reachable) {
        return fault(allocation->heap == HeapUse::kFreed ? FaultKind::kFreed : FaultKind::kForeign);
      }
      if (!FindAllocation(warp, address, store, hint)) return fault(FaultKind::kReadOnly);
    }
    if (address % bytes != 0) return fault(FaultKind::kMisaligned);
    return warp.worker->launch->memory->Host(address);
  }
  if (bytes > limit || address > limit - bytes) return fault(FaultKind::kOutOfBounds);
  if (address % bytes != 0) return fault(FaultKind::kMisaligned);
  return base + address;
}

bool FindSharedBytes(Warp& warp, const Op* op, int lane, uint32_t address, uint64_t bytes,
                     uint32_t alignment, bool store, SharedPlace* place) {
  *place = FindShared(*warp.block, address);
  const bool outside = place->block == nullptr || bytes > warp.shared_bytes ||
                       place->offset > warp.shared_bytes - bytes;
  const bool has_exited = !outside && place->block != warp.block && place->block->live_threads == 0;
  if (!outside && !has_exited && place->offset % alignment == 0) return true;
  const FaultKind kind = outside      ? FaultKind::kOutOfBounds
                         : has_exited ? FaultKind::kExited
                                      : FaultKind::kMisaligned;
  const uint64_t shown = outside ? std::min<uint64_t>(bytes, UINT32_MAX) : alignment;
  MemoryFault(warp, op, kind, MemorySpace::kShared, lane, address, static_cast<uint32_t>(shown),
              store);
  return false;
}

bool AddAddress(Warp& warp, const Op* op, MemorySpace space, int lane, uint64_t address,
                uint32_t bytes, bool store, LaneAddresses& lanes) {
  const MemorySpace requested = space;
  const uint64_t written = address;
  space = SpaceOfAddress(space, &address);
  if (space == MemorySpace::kLocal) {
    const FaultKind kind =
        LocalInBounds(warp, address, bytes) ? FaultKind::kMisaligned : FaultKind::kOutOfBounds;
    if (kind == FaultKind::kOutOfBounds || address % bytes != 0) {
      MemoryFault(warp, op, kind, space, lane, address, bytes, store);
      return false;
    }
    lanes.host[lane] = nullptr;
    lanes.local[lane] = address;
    return true;
  }
  lanes.host[lane] = ResolveLane(warp, op, requested, lane, written, bytes, store);
  if (lanes.host[lane] == nullptr) return false;
  if (space == MemorySpace::kShared) {
    const SharedPlace place = FindShared(*warp.block, address);
    (place.block == warp.block ? lanes.shared : lanes.siblings) |= 1u << lane;
    lanes.ranks[lane] = static_cast<uint8_t>(place.block->rank);
    lanes.offsets[lane] = place.offset;
  } else if (space == MemorySpace::kGlobal) {
    if (lanes.global == 0) lanes.global_base = address & ~uint64_t{31};
    lanes.global |= 1u << lane;
    lanes.global_offsets[lane] = static_cast<uint32_t>(address - lanes.global_base);
    lanes.far = lanes.far || address - lanes.global_base > INT32_MAX;
    lanes.watched = lanes.watched || warp.hints[op->count].stamps != nullptr;
    lanes.global_addresses[lane] = address;
  }
  return true;
}

bool ObserveAddresses(Warp& warp, const Op* op, AccessKind kind, uint32_t bytes,
                      const LaneAddresses& lanes) {
  if (warp.counting && kind.plain) {
    if (lanes.global != 0)
      CountGlobal(warp, op, lanes.global, lanes.global_base, lanes.global_offsets);
    const uint32_t shared = lanes.shared | lanes.siblings;
    if (shared != 0) CountShared(warp, op, shared, bytes, lanes.offsets);
  }
  if (lanes.siblings != 0 && warp.checking && !CheckSiblings(warp, op, kind, bytes, lanes)) {
    return false;
  }
  if (lanes.shared != 0 && warp.checking &&
      !CheckShared(warp, op, kind, lanes.shared, bytes, lanes.offsets)) {
    return false;
  }
  if (lanes.global == 0 || !lanes.watched) return true;
  if (!lanes.far)
    return CheckGlobal(warp, op, kind, lanes.global, bytes, lanes.global_base,
                       lanes.global_offsets);
  // The lanes are gigabytes apart, so check them one by one.
  const uint32_t zero[kLanes] = {};
  for (uint32_t rest = lanes.global; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    if (!CheckGlobal(warp, op, kind, 1u << lane, bytes, lanes.global_addresses[lane], zero))
      return false;
  }
  return true;
}

void CheckLocalLoad(Warp& warp, const Op* op) {
  const AccessShape shape = AccessShape::Unpack(op->aux);
  const uint32_t poison = warp.worker->launch->poison;
  if (shape.element_bytes < 4) return;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    for (uint32_t i = 0; i < shape.elements; ++i) {
      const bool wide = shape.element_bytes == 8;
      const uint32_t low =
          wide ? static_cast<uint32_t>(At<const uint64_t>(warp, SlotOf(op, i))[lane])
               : At<const uint32_t>(warp, SlotOf(op, i))[lane];
      if (low != poison) continue;
      Warn(warp, op, "uninitialized_local",
           "A local variable or array element is read here before it is written.", lane);
      return;
    }
  }
}

const Op* AccessSlowly(Warp& warp, const Op* op) {
  const AccessShape shape = AccessShape::Unpack(op->aux);
  const uint32_t bytes = shape.bytes();
  // Read all addresses first: a load may overwrite the register that holds them.
  uint64_t addresses[kLanes] = {};
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    addresses[lane] = LaneAddress(warp, op, shape.space, lane, op->imm);
  }
  // Check all lanes before the access changes anything.
  LaneAddresses lanes;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    if (!AddAddress(warp, op, shape.space, __builtin_ctz(rest), addresses[__builtin_ctz(rest)],
                    bytes, shape.store, lanes)) {
      return nullptr;
    }
  }
  if (!ObserveAddresses(warp, op, KindOf(shape), bytes, lanes)) return nullptr;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    LaneValue value{};
    std::byte* host = lanes.host[lane];
    if (shape.store) LoadSlots(warp, op, shape, lane, &value);
    if (host == nullptr) {
      CopyLocal(warp, lane, lanes.local[lane], bytes, shape.store, value.bytes);
    } else {
      std::memcpy(shape.store ? host : value.bytes, shape.store ? value.bytes : host, bytes);
    }
    if (!shape.store) StoreSlots(warp, op, shape, lane, value);
  }
  if (!shape.store && warp.checking && (lanes.shared | lanes.siblings | lanes.global) == 0) {
    CheckLocalLoad(warp, op);
  }
  return op + 1;
}

}  // namespace cupel::emu
