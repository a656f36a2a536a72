// Which space an address means, and where local memory and the slots of an access lie.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "emu/kernel.h"
#include "emu/op.h"

namespace cupel::emu {

/// The space that an address means; `address` becomes relative to its window.
inline MemorySpace SpaceOfAddress(MemorySpace space, uint64_t* address) {
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

/// The slot of an element of what is loaded or stored.
inline int32_t SlotOf(const Op* op, uint32_t element) {
  return element == 0 ? op->dst : op->src[element];
}

}  // namespace cupel::emu
