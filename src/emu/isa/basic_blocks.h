// The basic blocks of a function: sequences of instructions with one entry, at the first
// instruction, and one exit, at the last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "ptx/ir.h"

namespace cupel::emu {

struct BasicBlock {
  size_t begin = 0, end = 0;  // indices into Function::body
  std::vector<size_t> successors;
};

/// The blocks of `function`, in the order of its instructions.
std::vector<BasicBlock> BlocksOf(const ptx::Function& function);

}  // namespace cupel::emu
