// Tells the checks what warps do together. It includes no code of the standard library, because
// handlers are compiled for newer processors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

// What orders accesses. Call these only if warp.checking is set.
/// The lanes `mask` of the warp have synchronised with each other.
void NoteWarpSync(Warp& warp, uint32_t mask);
/// Lanes `mask` of the warp have exited.
void NoteExit(Warp& warp, uint32_t mask);
/// A fence. Fences of device or system scope affect other blocks.
void NoteFence(Warp& warp, bool reaches_other_blocks);
/// A proxy fence: asynchronous operations see what the warp's threads know.
void NoteProxyFence(Warp& warp);
/// An atomic or volatile access: publishes fenced writes, acquires published ones.
void NoteStrong(Warp& warp, AccessKind kind, bool is_global);

/// The warp's events are ordered before those of blocks of its cluster that acquire later.
void NoteRelease(Warp& warp);
void NoteAcquire(Warp& warp);

/// Reports a shuffle whose mask excludes executing lanes, or whose lanes `wrong` read absent lanes.
void ReportShuffle(Warp& warp, const Op* op, uint32_t named, uint32_t wrong);

}  // namespace cupel::emu
