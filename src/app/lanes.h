// The sessions that a use case needs: one, or one for each GPU of the machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "app/session.h"

namespace cupel::app {

/// Opens one session for "gpu:N", "gpu" or "emu", or one for each GPU for "gpu:all". They are ready
/// for timing.
Result<std::vector<std::unique_ptr<Session>>> OpenLanes(const Common& common,
                                                        const Compile& compile, Events& events);

/// Calls `work(lane, item)` for every item. Each lane has its own thread and takes the next item
/// when it is free. After the first Error no new item starts; that Error is returned.
Status ForEachOnLanes(size_t lanes, size_t items,
                      const std::function<Status(size_t lane, size_t item)>& work);

}  // namespace cupel::app
