// The interface to a block's barriers for handlers, and a few other services of the scheduler.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "emu/op.h"

namespace cupel::emu {

// Op::aux of a barrier op.
inline constexpr uint32_t kBarrierAligned = 1;
inline constexpr uint32_t kBarrierArriveOnly = 2;
inline constexpr uint32_t kBarrierPopc = 4;  // bar.red: the result goes to Op::dst
inline constexpr uint32_t kBarrierAnd = 8;
inline constexpr uint32_t kBarrierOr = 16;

inline constexpr uint32_t kBarrierCluster = 32;  // the cluster's barrier, kClusterBarrier

/// Adds the predicates `values` of `lanes` to the reduction at barrier `id`.
void ReduceAtBarrier(Warp& warp, uint32_t id, uint32_t values, uint32_t lanes);

/// The entry of Code::branch_targets at `index`.
int32_t BranchTarget(const Warp& warp, size_t index);

/// The number of the cluster barrier, which kernels cannot name.
inline constexpr uint32_t kClusterBarrier = 16;

}  // namespace cupel::emu
