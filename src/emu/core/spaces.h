// Resolves the space of an address, and locates local memory and the slots of an access.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "emu/core/kernel.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

/// Whether addresses of the space have 64 bits; otherwise they have 32.
inline bool HasWideAddresses(MemorySpace space) {
  return space == MemorySpace::kGlobal || space == MemorySpace::kGeneric;
}

inline bool IsShared(MemorySpace space) {
  return space == MemorySpace::kShared || space == MemorySpace::kSharedCluster;
}

/// The address of a lane's pointer, src[0], plus a displacement, in `space` as the op names it.
inline uint64_t LaneAddress(const Warp& warp, const Op* op, MemorySpace space, int lane,
                            int64_t displacement) {
  const auto offset = static_cast<uint64_t>(displacement);
  if (HasWideAddresses(space)) return At<const uint64_t>(warp, op->src[0])[lane] + offset;
  return static_cast<uint32_t>(At<const uint32_t>(warp, op->src[0])[lane] + offset);
}

/// The space of an address: not kGeneric, and kShared for kSharedCluster. Makes `address` relative
/// to the space's window. An address in kShared may be that of another block (FindShared).
inline MemorySpace SpaceOfAddress(MemorySpace space, uint64_t* address) {
  if (space == MemorySpace::kSharedCluster) return MemorySpace::kShared;
  if (space != MemorySpace::kGeneric) return space;
  for (const auto& [base, name] : {std::pair(kSharedWindow, MemorySpace::kShared),
                                   std::pair(kLocalWindow, MemorySpace::kLocal),
                                   std::pair(kParamWindow, MemorySpace::kParam)}) {
    if (*address - base < kWindowBytes) {
      *address -= base;
      return name;
    }
  }
  return MemorySpace::kGlobal;
}

/// Host address of byte `offset` of a lane's local memory, whose words are interleaved.
inline std::byte* LocalByte(const Warp& warp, int lane, uint64_t offset) {
  return warp.local + ((offset / 4) * kLanes + static_cast<uint64_t>(lane)) * 4 + offset % 4;
}

/// The slot of an element that is loaded or stored.
inline int32_t SlotOf(const Op* op, uint32_t element) {
  return element == 0 ? op->dst : op->src[element];
}

}  // namespace cupel::emu
