// The registers of an instruction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ptx/ir.h"

namespace cupel::emu {

/// The registers that an instruction writes and reads.
struct RegisterUse {
  std::vector<int> writes, reads;
};
RegisterUse UseOf(const ptx::Instr& instr);

}  // namespace cupel::emu
