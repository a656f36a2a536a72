// The slow path of loads and stores, lane by lane, with all checks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "emu/core/cluster.h"
#include "emu/core/lane_addresses.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

/// Sets the hint to the allocation (or 2 GiB of it) that contains `address`. Returns false if there
/// is none, or the kernel may not access it in this way.
bool FindAllocation(const Warp& warp, uint64_t address, bool store, Hint& hint);
/// Adds a lane's `address`, which is generic or in `space`. Returns false after a finding.
bool AddAddress(Warp& warp, const Op* op, MemorySpace space, int lane, uint64_t address,
                uint32_t bytes, bool store, LaneAddresses& lanes);
/// Counts and checks the added addresses. Returns false after a finding.
bool ObserveAddresses(Warp& warp, const Op* op, AccessKind kind, uint32_t bytes,
                      const LaneAddresses& lanes);
/// Full checks, after a load from local memory: reports values that are still poison.
void CheckLocalLoad(Warp& warp, const Op* op);
/// Executes a load or store lane by lane, with all checks. Returns op + 1 or null.
const Op* AccessSlowly(Warp& warp, const Op* op);
/// Host address of `bytes` bytes at `address` for one lane, or null after a finding. Not for local
/// memory.
std::byte* ResolveLane(Warp& warp, const Op* op, MemorySpace space, int lane, uint64_t address,
                       uint32_t bytes, bool store);

/// Finds `bytes` bytes of shared memory, of any block of the cluster, for one lane. Returns false
/// after a finding.
bool FindSharedBytes(Warp& warp, const Op* op, int lane, uint32_t address, uint64_t bytes,
                     uint32_t alignment, bool store, SharedPlace* place);

}  // namespace cupel::emu
