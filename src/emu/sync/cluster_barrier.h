// The barrier of a cluster (barrier.cluster). Threads arrive and wait in separate instructions. A
// phase is complete when all live threads of the cluster have arrived.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

/// The active lanes arrive. Returns op + 1, or null after a finding.
const Op* ArriveAtCluster(Warp& warp, const Op* op);
/// The active lanes wait until the phase at which they arrived is complete.
const Op* WaitForCluster(Warp& warp, const Op* op);
/// Lanes `mask` of the warp have exited. No thread waits for them.
void LeaveCluster(Warp& warp, uint32_t mask);

}  // namespace cupel::emu
