// Runs one kernel launch on the CPU: every warp of every block, with all memory accesses checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "emu/core/launch_request.h"
#include "emu/core/memory.h"
#include "engine/engine.h"

namespace cupel::emu {

class ThreadPool;

/// Executes the launch. Bugs of the kernel are findings in the outcome. An Error means that cupel
/// could not run it (kCancelled: options.cancelled returned true). The outcome depends only on the
/// request, the memory contents and the options, not on the size of the pool.
Result<LaunchOutcome> RunLaunch(const LaunchRequest& request, GlobalMemory& memory,
                                const engine::RunOptions& options, ThreadPool& pool);

}  // namespace cupel::emu
