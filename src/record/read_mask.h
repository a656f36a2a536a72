// Which bytes of its parameters a kernel can read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "ptx/ir.h"

namespace cupel::record {

/// One byte per byte of the parameter block, non-zero if `kernel` may read it. Padding and unused
/// members of structures are zero: host code often leaves them uninitialised. Follows addresses of
/// parameters through registers (a kernel with a tensor map takes the address of the structure that
/// contains it). Where an address leads to unknown places, all of the parameter counts as read.
std::string ReadMask(const ptx::Function& kernel);

}  // namespace cupel::record
