// SPDX-License-Identifier: Apache-2.0
#include "emu/sync/register_pool.h"

#include <fmt/format.h>

#include "emu/check/report.h"
#include "emu/core/block_state.h"

namespace cupel::emu {

void RegisterPool::Set(const Warp& warp, const Op* op, uint32_t registers, uint32_t at_launch) {
  at_launch_ = at_launch;
  const uint32_t before = held_[warp.index] != 0 ? held_[warp.index] : at_launch;
  if (registers > before) {
    increase_ = op;
    warp_ = warp.index;
  }
  held_[warp.index] = registers;
}

bool RegisterPool::Check(Warp& last) const {
  const auto has = static_cast<uint64_t>(at_launch_) * held_.size() * kLanes;
  uint64_t kept = 0;
  for (const uint32_t registers : held_) {
    kept += uint64_t{registers != 0 ? registers : at_launch_} * kLanes;
  }
  if (kept <= has || increase_ == nullptr) return true;
  Fault(
      last.block->warps[warp_], increase_, "deadlock",
      fmt::format("setmaxnreg.inc waits forever on a GPU: the block has {} registers ({} for each "
                  "thread at the launch), but its warps together ask for {}. Ask for fewer, or "
                  "release more with setmaxnreg.dec.",
                  has, at_launch_, kept),
      0);
  last.stop = Stop::kFault;
  return false;
}

}  // namespace cupel::emu
