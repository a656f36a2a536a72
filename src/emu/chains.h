// How long one warp takes alone: the longest chain of dependent instructions of each basic block.
// Compilers order the instructions of a block so that only these dependences delay a warp, but they
// rarely move loads from one block to another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ptx/ir.h"

namespace cupel::emu {

/// The chain of a block that takes longest if loads take their usual time.
struct Chain {
  uint32_t begin = 0, end = 0;  // the block: indices of instructions
  uint32_t clocks = 0;          // without loads; at least one for each instruction of the block
  uint32_t loads = 0;           // dependent loads of global memory, and atomics with a result
  uint32_t shared_loads = 0;
};

/// The chains of the blocks of a function, in order.
std::vector<Chain> ChainsOf(const ptx::Function& function);

}  // namespace cupel::emu
