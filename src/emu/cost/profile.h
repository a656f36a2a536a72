// Runs counted blocks and sums up their profile. Blocks that are not counted skip this code: they
// run in the handlers' own loop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "emu/core/code.h"
#include "emu/core/op.h"
#include "emu/core/op_profile.h"
#include "emu/core/warp.h"
#include "engine/engine.h"

namespace cupel::emu {

/// Like HandlerTable::run, for blocks that are counted or whose stores are tracked.
void RunObserved(Warp& warp);
/// Runs one op in the same way.
const Op* StepObserved(Warp& warp, const Op* op);

/// Computes lines, mix and sums of `profile`, multiplied by blocks / counted.
void Summarize(const Code& code, const Profile& profile, uint64_t blocks, uint64_t counted,
               records::LaunchCounters* counters);

}  // namespace cupel::emu
