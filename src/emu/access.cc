// The slow path of loads and stores, lane by lane. It handles accesses to several allocations,
// generic addresses of all kinds, indexed local memory, kernel parameters, and every error.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "emu/block.h"
#include "emu/spaces.h"

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

uint64_t Extended(uint64_t bits, const AccessShape& shape) {
  if (!shape.is_signed || shape.element_bytes == 8) return bits;
  const int shift = 64 - 8 * static_cast<int>(shape.element_bytes);
  return static_cast<uint64_t>(static_cast<int64_t>(bits << shift) >> shift);
}

struct LaneValue {
  alignas(16) std::byte bytes[32];
};

/// LoadSlots copies the lane's slots to packed bytes; StoreSlots copies packed bytes to the slots.
void LoadSlots(const Warp& warp, const Op* op, const AccessShape& shape, int lane,
               LaneValue* value) {
  for (uint32_t i = 0; i < shape.elements; ++i) {
    std::byte* to = value->bytes + i * shape.element_bytes;
    if (shape.element_bytes == 8) {
      std::memcpy(to, At<uint64_t>(warp, SlotOf(op, i)) + lane, 8);
    } else {
      std::memcpy(to, At<uint32_t>(warp, SlotOf(op, i)) + lane, shape.element_bytes);
    }
  }
}
void StoreSlots(const Warp& warp, const Op* op, const AccessShape& shape, int lane,
                const LaneValue& value) {
  for (uint32_t i = 0; i < shape.elements; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, value.bytes + i * shape.element_bytes, shape.element_bytes);
    bits = Extended(bits, shape);
    if (shape.element_bytes == 8) {
      At<uint64_t>(warp, SlotOf(op, i))[lane] = bits;
    } else {
      At<uint32_t>(warp, SlotOf(op, i))[lane] = static_cast<uint32_t>(bits);
    }
  }
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
  if (warp.watching) hint.stamps = launch.memory->checker()->WriteStamps(hint.begin);
  return true;
}

std::byte* ResolveLane(Warp& warp, const Op* op, MemorySpace space, int lane, uint64_t address,
                       uint32_t bytes, bool store) {
  CHECK(bytes != 0);
  const uint64_t written = address;
  const MemorySpace requested = space;
  space = SpaceOfAddress(space, &address);
  auto fault = [&](FaultKind kind) -> std::byte* {
    MemoryFault(warp, op, kind, space, lane, requested == MemorySpace::kGeneric ? address : written,
                bytes, store);
    return nullptr;
  };
  uint64_t limit = 0;
  std::byte* base = nullptr;
  if (space == MemorySpace::kShared) {
    limit = warp.shared_bytes;
    base = warp.shared;
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
      if (!allocation->reachable) return fault(FaultKind::kForeign);
      if (!FindAllocation(warp, address, store, hint)) return fault(FaultKind::kReadOnly);
    }
    if (address % bytes != 0) return fault(FaultKind::kMisaligned);
    return warp.worker->launch->memory->Host(address);
  }
  if (bytes > limit || address > limit - bytes) return fault(FaultKind::kOutOfBounds);
  if (address % bytes != 0) return fault(FaultKind::kMisaligned);
  return base + address;
}

void StoredValue(const Warp& warp, const Op* op, int lane, std::byte* bytes) {
  const AccessShape shape = AccessShape::Unpack(op->aux);
  LaneValue value{};
  LoadSlots(warp, op, shape, lane, &value);
  std::memcpy(bytes, value.bytes, shape.bytes());
}

bool LaneAddresses::Add(Warp& warp, const Op* op, MemorySpace space, int lane, uint64_t address,
                        uint32_t bytes, bool store) {
  space = SpaceOfAddress(space, &address);
  if (space == MemorySpace::kLocal) {
    const FaultKind kind =
        LocalInBounds(warp, address, bytes) ? FaultKind::kMisaligned : FaultKind::kOutOfBounds;
    if (kind == FaultKind::kOutOfBounds || address % bytes != 0) {
      MemoryFault(warp, op, kind, space, lane, address, bytes, store);
      return false;
    }
    host[lane] = nullptr;
    local[lane] = address;
    return true;
  }
  host[lane] = ResolveLane(warp, op, space, lane, address, bytes, store);
  if (host[lane] == nullptr) return false;
  if (space == MemorySpace::kShared) {
    shared |= 1u << lane;
    offsets[lane] = static_cast<uint32_t>(address);
  } else if (space == MemorySpace::kGlobal) {
    if (global == 0) global_base = address & ~uint64_t{31};
    global |= 1u << lane;
    global_offsets[lane] = static_cast<uint32_t>(address - global_base);
    far = far || address - global_base > INT32_MAX;
    watched = watched || warp.hints[op->count].stamps != nullptr;
    global_addresses[lane] = address;
  }
  return true;
}

bool LaneAddresses::Observe(Warp& warp, const Op* op, AccessKind kind, uint32_t bytes) const {
  if (warp.counting && kind.plain) {
    if (global != 0) CountGlobal(warp, op, global, global_base, global_offsets);
    if (shared != 0) CountShared(warp, op, shared, bytes, offsets);
  }
  if (shared != 0 && warp.checking && !CheckShared(warp, op, kind, shared, bytes, offsets)) {
    return false;
  }
  if (global == 0 || !watched) return true;
  if (!far) return CheckGlobal(warp, op, kind, global, bytes, global_base, global_offsets);
  // The lanes are gigabytes apart, so check them one by one.
  const uint32_t zero[kLanes] = {};
  for (uint32_t rest = global; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    if (!CheckGlobal(warp, op, kind, 1u << lane, bytes, global_addresses[lane], zero)) return false;
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
    if (!lanes.Add(warp, op, shape.space, __builtin_ctz(rest), addresses[__builtin_ctz(rest)],
                   bytes, shape.store)) {
      return nullptr;
    }
  }
  if (!lanes.Observe(warp, op, KindOf(shape), bytes)) return nullptr;
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
  if (!shape.store && warp.checking && lanes.shared == 0 && lanes.global == 0) {
    CheckLocalLoad(warp, op);
  }
  return op + 1;
}

}  // namespace cupel::emu
