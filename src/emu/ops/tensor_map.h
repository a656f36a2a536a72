// Accesses to tensor maps in memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

/// Checks a lane's access to the 128 bytes of a map at `address`, which is generic or in `space`,
/// and returns where they are in the host's memory; null after a finding.
std::byte* MapBytes(Warp& warp, const Op* op, MemorySpace space, int lane, uint64_t address,
                    bool store);

}  // namespace cupel::emu
