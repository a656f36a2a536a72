// Basic blocks of a function: runs of instructions that are entered at their first and left at
// their last. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "ptx/ir.h"

namespace cupel::emu {

struct BasicBlock {
  size_t begin = 0, end = 0;  // indices into Function::body
  std::vector<size_t> successors;
};

/// In order of the text.
std::vector<BasicBlock> BlocksOf(const ptx::Function& function);

}  // namespace cupel::emu
