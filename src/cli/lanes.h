// The engines that a command may use: one, or one for each GPU of the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/session.h"

namespace cupel::cli {

/// A session for "gpu:N", "gpu" or "emu", one for each GPU for "gpu:all", ready for timing.
Result<std::vector<std::unique_ptr<Session>>> OpenLanes(
    const Common& common, const Compile& compile,
    const std::function<void(const assay::Progress&)>& progress);

/// Calls `work(lane, item)` for every item, each lane in a thread of its own; a lane takes the next
/// item when it is free. Returns the first Error, after which no new item is begun.
Status ForEachOnLanes(size_t lanes, size_t items,
                      const std::function<Status(size_t lane, size_t item)>& work);

}  // namespace cupel::cli
