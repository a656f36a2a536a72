// Which neighbouring accesses to shared memory ptxas fuses: four loads of consecutive words become
// one of 16 bytes. Wavefronts are counted for the accesses that the hardware executes. Without
// fusion, such loads would wrongly look like bank conflicts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "emu/core/code.h"
#include "ptx/ir.h"

namespace cupel::emu {

/// By instruction of the body.
std::vector<SharedFusion> FuseSharedAccesses(const ptx::Function& function);

}  // namespace cupel::emu
