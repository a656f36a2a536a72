// Runs items on lanes. A lane is a thread and what only that thread uses: a GPU, a PyTorch child, a
// folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "base/result.h"

namespace cupel {

/// The cores of this machine, at least one.
size_t Cores();

/// One item on one lane. Must not throw.
using LaneWork = std::function<Status(size_t lane, size_t item)>;

/// Calls `work` for every item, in the order of their numbers. Each lane takes the next item when
/// it is free. There are at most as many lanes as items, and fewer if the system has no more
/// threads; the caller's thread is lane 0. After the first Error no new item starts; that Error is
/// returned.
Status ForEachOnLanes(size_t lanes, size_t items, const LaneWork& work);

/// The same for lanes that may break, such as GPUs. An Error does not end the other items: it is
/// passed to `failed`, on the lane's thread. kEnvironment and kInternal may be the lane's fault.
/// Another lane, if there is one, then tries the item once more. A lane gets no more items after
/// kMostErrorsInARow such Errors in a row, unless it is the last one.
void TryOnLanes(size_t lanes, size_t items, const LaneWork& work,
                const std::function<void(size_t item, Error error)>& failed);

}  // namespace cupel
