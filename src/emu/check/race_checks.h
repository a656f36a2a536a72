// Full checks of an access before it is done. They return false after an error (warp.stop is set).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

struct BlockState;

bool CheckShared(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
                 const uint32_t* offsets);
bool CheckShared(Warp& warp, const Op* op, bool store, bool atomic, uint32_t active, uint32_t bytes,
                 const uint32_t* offsets);
/// An access to the shared memory of another block of the cluster, `sibling`.
bool CheckSibling(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
                  const uint32_t* offsets, BlockState& sibling);
/// Only for watched global memory (Hint::stamps). Offsets count from device address `base`.
bool CheckGlobal(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
                 uint64_t base, const uint32_t* offsets);
/// The same for memory that may not be watched. Takes the lower halves of addresses that the op's
/// hint spans.
bool CheckGlobal(Warp& warp, const Op* op, AccessKind kind, uint32_t active, uint32_t bytes,
                 const uint32_t* low_halves);
/// Copies to these places of shared memory have begun. The places have no value until the wait.
void NoteCopyUnderWay(Warp& warp, const Op* op, uint32_t active, uint32_t bytes,
                      const uint32_t* offsets);

}  // namespace cupel::emu
