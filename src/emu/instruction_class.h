// Which part of an SM an instruction keeps busy. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/line_counters.h"
#include "ptx/ir.h"

namespace cupel::emu {

engine::InstructionClass ClassOf(const ptx::Instr& instr);

/// Moves between registers, which machine code does without.
bool IsFree(const ptx::Instr& instr);

/// Atomics on floats in shared memory are loops of compare-and-swap.
bool IsRetried(const ptx::Instr& instr);

/// Operations of a warp's tensor-core instruction, as many as take its time at the rate of float16:
/// 2 m n k, twice that for tf32, half for 8 bits. 0 for others.
uint32_t TensorOperations(const ptx::Instr& instr);

}  // namespace cupel::emu
