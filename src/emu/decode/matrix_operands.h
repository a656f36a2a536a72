// Operands of matrix instructions, as blocks (emu/core/matrix.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "emu/core/matrix.h"
#include "emu/isa/instructions.h"
#include "ptx/ir.h"
#include "ptx/type.h"

namespace cupel::emu {

std::optional<MatrixType> MatrixTypeOf(ptx::Type type);
/// The registers of a lane in one block of an accumulator.
uint32_t SlotsOfAccumulator(MatrixType type);
/// The order of a fragment's registers in the lists of matrix.h. `role` is 'a', 'b', 'c' or 'd';
/// `slots` is the number of registers in a block.
std::vector<size_t> OrderOf(char role, uint32_t lines, uint32_t columns, uint32_t slots);
/// True for products whose A is sparse.
bool IsSparse(const ptx::Instr& instr);
/// The micro-op that computes the product; kNone if none does.
Micro ProductOp(const ProductShape& shape);

}  // namespace cupel::emu
