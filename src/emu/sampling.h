// Running a random subset of a grid's blocks: where that says something true about the rest, which
// blocks, and which elements of the outputs may then be looked at.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "emu/kernel.h"
#include "emu/launch.h"
#include "emu/nodes.h"
#include "engine/engine.h"
#include "plan/plan.h"

namespace cupel::emu {

/// Buffers that a node is given addresses of.
std::set<int> BuffersOf(const plan::Launch& launch);
std::set<int> BuffersOf(const plan::Node& node);

/// By node: true for launches of which a part may be run. Their blocks do not depend on each other,
/// no other node reads what they write, and outputs in it are contiguous.
std::vector<bool> SampledNodes(const plan::Plan& plan, const KernelModule& kernels,
                               uint64_t max_blocks);

/// About `count` numbers below grid.Count(), ascending: the grid's corners, some neighbours, and
/// the rest drawn by `seed`.
std::vector<uint64_t> SampleBlocks(const plan::Dim3& grid, uint64_t count, uint64_t seed);

/// Whole elements of a contiguous view that lie in `written` (sorted, apart from each other).
std::vector<engine::ElementRange> WrittenElements(const plan::View& view,
                                                  std::span<const BoundBuffer> buffers,
                                                  std::span<const WrittenRange> written);

}  // namespace cupel::emu
