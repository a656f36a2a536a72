// How long one warp takes alone: the longest chain of dependent instructions of each basic block. A
// compiler orders a block so that nothing else keeps a warp waiting, but hardly moves loads from
// one block to another. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ptx/ir.h"

namespace cupel::emu {

/// What lies on the chain that takes longest when loads take their usual time.
struct Chain {
  uint32_t begin = 0, end = 0;  // the block: indices of instructions
  uint32_t clocks = 0;          // all but loads; at least one for each instruction of the block
  uint32_t loads = 0;           // of global memory, one waiting for the other; atomics' answers too
  uint32_t shared_loads = 0;
};

/// Of the blocks of a function, in order.
std::vector<Chain> ChainsOf(const ptx::Function& function);

}  // namespace cupel::emu
