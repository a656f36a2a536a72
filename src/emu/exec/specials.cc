// The special registers of a warp as slots of its frame.
// SPDX-License-Identifier: Apache-2.0
#include "emu/exec/specials.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/random.h"
#include "emu/core/block_state.h"
#include "emu/core/launch_state.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {
namespace {

/// Blocks are assigned to multiprocessors one by one, in an order that depends on the seed.
uint32_t ProcessorOf(const LaunchState& launch, const BlockState& block) {
  return launch.processors[block.number % launch.processors.size()];
}

/// A warp's index on its multiprocessor, which it shares with other blocks.
uint32_t PlaceOnProcessor(const LaunchState& launch, const Warp& warp, const BlockState& block) {
  const uint32_t blocks =
      std::max(launch.request->processor_warps / launch.warps_per_block, uint32_t{1});
  Random random = Random(launch.clock + block.number).Fork("place on a multiprocessor");
  return static_cast<uint32_t>(random.Below(blocks)) * launch.warps_per_block + warp.index;
}

/// The value of a register that differs between blocks or warps; nullopt for other registers.
std::optional<uint32_t> ValueForWarp(const LaunchState& launch, const Warp& warp,
                                     const BlockState& block, Special which) {
  switch (which) {
    case Special::kCtaidX:
      return block.index.x;
    case Special::kCtaidY:
      return block.index.y;
    case Special::kCtaidZ:
      return block.index.z;
    case Special::kClusterCtaidX:
      return block.index.x % launch.cluster.x;
    case Special::kClusterCtaidY:
      return block.index.y % launch.cluster.y;
    case Special::kClusterCtaidZ:
      return block.index.z % launch.cluster.z;
    case Special::kClusterCtarank:
      return block.rank;
    case Special::kClusteridX:
      return block.index.x / launch.cluster.x;
    case Special::kClusteridY:
      return block.index.y / launch.cluster.y;
    case Special::kClusteridZ:
      return block.index.z / launch.cluster.z;
    case Special::kSmId:
      return ProcessorOf(launch, block);
    case Special::kWarpId:
      return PlaceOnProcessor(launch, warp, block);
    default:
      return std::nullopt;
  }
}

}  // namespace

void ShuffleProcessors(uint64_t seed, LaunchState* launch) {
  const std::vector<SpecialSlot>& specials = launch->code->specials;
  if (std::none_of(specials.begin(), specials.end(),
                   [](const SpecialSlot& slot) { return slot.which == Special::kSmId; })) {
    return;
  }
  std::vector<uint32_t>& order = launch->processors;
  order.resize(launch->request->processors);
  std::iota(order.begin(), order.end(), uint32_t{0});
  Random(seed).Fork("multiprocessors").Shuffle(order);
}

void FillSpecials(const LaunchState& launch, Warp& warp, const BlockState& block, bool is_new) {
  const plan::Dim3& grid = launch.request->grid;
  const plan::Dim3& dim = launch.request->block;
  const uint32_t base = warp.index * kLanes;
  for (const SpecialSlot& slot : launch.code->specials) {
    auto* words = At<uint32_t>(warp, slot.offset);
    auto fill = [&](uint32_t value) { std::fill(words, words + kLanes, value); };
    if (const std::optional<uint32_t> value = ValueForWarp(launch, warp, block, slot.which)) {
      fill(*value);
      continue;
    }
    if (!is_new) continue;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t thread = base + lane;
      uint32_t value = 0;
      switch (slot.which) {
        case Special::kTidX:
          value = thread % dim.x;
          break;
        case Special::kTidY:
          value = thread / dim.x % dim.y;
          break;
        case Special::kTidZ:
          value = thread / dim.x / dim.y;
          break;
        case Special::kNtidX:
          value = dim.x;
          break;
        case Special::kNtidY:
          value = dim.y;
          break;
        case Special::kNtidZ:
          value = dim.z;
          break;
        case Special::kNctaidX:
          value = grid.x;
          break;
        case Special::kNctaidY:
          value = grid.y;
          break;
        case Special::kNctaidZ:
          value = grid.z;
          break;
        case Special::kLaneId:
          value = lane;
          break;
        case Special::kNwarpId:
          value = launch.request->processor_warps;
          break;
        case Special::kGridId:
          value = launch.grid_id;
          break;
        case Special::kNsmId:
          value = launch.request->processors;
          break;
        case Special::kLanemaskEq:
          value = 1u << lane;
          break;
        case Special::kLanemaskLe:
          value = (2u << lane) - 1;
          break;
        case Special::kLanemaskLt:
          value = (1u << lane) - 1;
          break;
        case Special::kLanemaskGe:
          value = ~((1u << lane) - 1);
          break;
        case Special::kLanemaskGt:
          value = ~((2u << lane) - 1);
          break;
        case Special::kDynamicSharedBytes:
          value = launch.request->dynamic_shared;
          break;
        case Special::kTotalSharedBytes:  // reserved memory follows the block's own
        case Special::kReservedSharedBegin:
          value = launch.shared_bytes - launch.reserved_shared;
          break;
        case Special::kReservedSharedEnd:
          value = launch.shared_bytes;
          break;
        case Special::kGridWorkspaceHigh:
          value = static_cast<uint32_t>(launch.grid_workspace >> 32);
          break;
        case Special::kGridWorkspaceLow:
          value = static_cast<uint32_t>(launch.grid_workspace);
          break;
        case Special::kClusterNctaidX:
          value = launch.cluster.x;
          break;
        case Special::kClusterNctaidY:
          value = launch.cluster.y;
          break;
        case Special::kClusterNctaidZ:
          value = launch.cluster.z;
          break;
        case Special::kClusterNctarank:
          value = static_cast<uint32_t>(launch.cluster.Count());
          break;
        case Special::kNclusteridX:
          value = grid.x / launch.cluster.x;
          break;
        case Special::kNclusteridY:
          value = grid.y / launch.cluster.y;
          break;
        case Special::kNclusteridZ:
          value = grid.z / launch.cluster.z;
          break;
        case Special::kIsExplicitCluster:
          value = launch.is_clustered;
          break;
        default:
          break;
      }
      words[lane] = value;
    }
  }
}

}  // namespace cupel::emu
