// The part of an SM that an instruction uses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ptx/ir.h"
#include "records/counters.h"

namespace cupel::emu {

records::InstructionClass ClassOf(const ptx::Instr& instr);

/// True for moves between registers, which machine code does not need.
bool IsFree(const ptx::Instr& instr);

/// True for atomics on floats in shared memory, which are compare-and-swap loops.
bool IsRetried(const ptx::Instr& instr);

/// The operations of a warp's tensor-core instruction, scaled to the rate of float16: 2 m n k for
/// 16 bits, twice that for tf32, 16 times for f64, half for 8 bits. 0 for other instructions.
uint32_t TensorOperations(const ptx::Instr& instr);

}  // namespace cupel::emu
