// How long one warp takes alone, as ptxas orders its instructions. ptxas turns short branches into
// predicates, so that the loads of consecutive `if (ok) v = p[i];` are issued one after another and
// wait together, and it unrolls short loops. A region is code that therefore runs without a branch:
// the basic blocks from one branch that remains to the next.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "emu/core/code.h"
#include "ptx/ir.h"

namespace cupel::emu {

struct Region {
  /// The longest chain of dependent instructions of the region [begin, end).
  Chain chain;
  /// If ptxas unrolls the region, which is then a whole loop: the chain of kUnrolled iterations
  /// together. Otherwise empty.
  Chain unrolled;
  std::vector<uint32_t> loads;  // the instructions that Chain::loads counts, and others like them
  /// Stores to the bytes behind those of an earlier store, in the same 32 bytes: the L1 sends both
  /// to the L2 together.
  std::vector<uint32_t> merged_stores;
};

/// How many iterations of a loop ptxas combines.
inline constexpr uint32_t kUnrolled = 4;

/// The regions of a function, in order. Each instruction is in one.
std::vector<Region> RegionsOf(const ptx::Function& function);

}  // namespace cupel::emu
