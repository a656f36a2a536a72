// How long one warp takes alone: the longest chain of dependent instructions of each basic block.
// Compilers order the instructions of a block so that only these dependences delay a warp, but they
// rarely move loads from one block to another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "emu/core/code.h"
#include "ptx/ir.h"

namespace cupel::emu {

/// The chains of the blocks of a function, in order.
std::vector<Chain> ChainsOf(const ptx::Function& function);

}  // namespace cupel::emu
