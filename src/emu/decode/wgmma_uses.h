// Which instructions use the registers of wgmma products. A product owns its accumulators, and
// reads A from registers, until a wgmma.wait_group completes it. The interpreter checks this where
// the path of execution is known (sync/warpgroups.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "emu/sync/warpgroups.h"
#include "ptx/ir.h"

namespace cupel::emu {

struct WgmmaUse {
  RegisterTouch touch = RegisterTouch::kRead;
  int reg = 0;
  int from = 0;  // the source of a copy
};

/// By index into `function.body`: the uses to check before that instruction. Between two wgmma
/// instructions of a basic block all uses are checked at once, before the first one that is not a
/// copy. Reads are left out where no product can be in progress. Empty without wgmma.
std::map<size_t, std::vector<WgmmaUse>> WgmmaUsesOf(const ptx::Function& function);

}  // namespace cupel::emu
