// Which neighbouring accesses to shared memory ptxas makes one of: four loads of consecutive words
// become one of 16 bytes. Wavefronts are counted for what the hardware executes; counted one by one
// as PTX writes them, such loads look like bank conflicts that are not there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ptx/ir.h"

namespace cupel::emu {

/// What an access is counted as.
struct SharedFusion {
  int32_t shift = 0;       // from its own address to that of the fused access
  uint32_t bytes = 0;      // of the fused access; 0: it stands alone
  bool is_member = false;  // counted with an earlier one
};

/// By instruction of the body.
std::vector<SharedFusion> FuseSharedAccesses(const ptx::Function& function);

}  // namespace cupel::emu
