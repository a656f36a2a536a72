// Which neighbouring accesses to shared memory ptxas fuses: four loads of consecutive words become
// one of 16 bytes. Wavefronts are counted for the accesses that the hardware executes. Without
// fusion, such loads would wrongly look like bank conflicts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ptx/ir.h"

namespace cupel::emu {

/// The access that is counted instead of the one in PTX.
struct SharedFusion {
  int32_t shift = 0;       // from its own address to that of the fused access
  uint32_t bytes = 0;      // of the fused access; 0: not fused
  bool is_member = false;  // counted with an earlier one
};

/// By instruction of the body.
std::vector<SharedFusion> FuseSharedAccesses(const ptx::Function& function);

}  // namespace cupel::emu
