// Runs a random subset of a grid's blocks: when this is valid, which blocks to run, and which
// output elements they write.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "emu/core/kernel.h"
#include "emu/core/launch_request.h"
#include "emu/decode/kernel_module.h"
#include "emu/exec/launch.h"
#include "emu/nodes/nodes.h"
#include "engine/engine.h"
#include "plan/plan.h"

namespace cupel::emu {

/// Buffers whose addresses a node has.
std::set<int> BuffersOf(const plan::Launch& launch);
std::set<int> BuffersOf(const plan::Node& node);

/// By node: true for launches that may run partially. Their blocks are independent, no other node
/// reads what they write, and the outputs in it are contiguous.
std::vector<bool> SampledNodes(const plan::Plan& plan, const KernelModules& modules,
                               uint64_t max_blocks);

/// About `count` numbers of blocks (cluster.h), ascending, of whole clusters: the grid's corners,
/// some neighbours, and random clusters that depend on `seed`.
std::vector<uint64_t> SampleBlocks(const plan::Dim3& grid, const plan::Dim3& cluster,
                                   uint64_t count, uint64_t seed);

/// Whole elements of a contiguous view that are in `written` (sorted, not adjacent).
std::vector<engine::ElementRange> WrittenElements(const plan::View& view,
                                                  std::span<const BoundBuffer> buffers,
                                                  std::span<const WrittenRange> written);

}  // namespace cupel::emu
