// Registers of 128 bits (.b128) as pairs of registers of 64 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ptx/ir.h"

namespace cupel::emu {

bool HasWideRegisters(const ptx::Function& function);

/// Replaces each 128-bit register by two new ones: an operand becomes the vector {low, high}. Loads
/// and stores become those of vectors of 64-bit elements. The instructions keep their places.
void SplitWideRegisters(ptx::Function* function);

}  // namespace cupel::emu
