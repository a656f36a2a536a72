// Flags in Op::aux that the decoder and the handlers share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cupel::emu {

// Op::aux of a barrier op.
inline constexpr uint32_t kBarrierAligned = 1;
inline constexpr uint32_t kBarrierArriveOnly = 2;
inline constexpr uint32_t kBarrierPopc = 4;  // bar.red: the result goes to Op::dst
inline constexpr uint32_t kBarrierAnd = 8;
inline constexpr uint32_t kBarrierOr = 16;

inline constexpr uint32_t kBarrierRelaxed = 32;  // of a cluster; orders no accesses

/// Group::barrier of lanes that wait for the cluster. Kernels cannot name this number.
inline constexpr uint32_t kClusterBarrier = 16;
/// That of a warp that waits for products which other warps of its warpgroup have yet to issue.
inline constexpr uint32_t kWarpgroupBarrier = 17;
/// That of a warp that waits until enough tensor memory is free.
inline constexpr uint32_t kTensorBarrier = 18;

// Op::aux of an mbarrier op.
inline constexpr uint32_t kMbarrierGeneric = 1;       // its address is generic
inline constexpr uint32_t kMbarrierDrop = 2;          // arrive_drop
inline constexpr uint32_t kMbarrierComplete = 4;      // complete_tx
inline constexpr uint32_t kMbarrierParity = 8;        // waits by parity
inline constexpr uint32_t kMbarrierBlockScope = 64;   // .cta
inline constexpr uint32_t kMbarrierRelaxed = 32;      // neither releases nor acquires
inline constexpr uint32_t kMbarrierNoIncrement = 16;  // cp.async.mbarrier.arrive.noinc

// Op::aux of a wait or fence of tcgen05.
inline constexpr uint32_t kTensorStores = 1;           // waits for stores
inline constexpr uint32_t kTensorAfterThreadSync = 2;  // fence::after_thread_sync

}  // namespace cupel::emu
