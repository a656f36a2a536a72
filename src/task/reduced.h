// The smaller sizes at which a task is asked on the emulator, where its own are too large for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "task/task.h"

namespace cupel::task {

/// Reads task.json's "emulator_forward" or "emulator_backward": {"at_most": {keyword: number}}. A
/// keyword that no setting has is an error: it would cap nothing.
Result<Json> ReadCaps(const Json& emulator, const std::vector<Setting>& settings,
                      std::string_view what);

/// The task with every number that task.json caps, alone or in a list, no larger than that;
/// Setting::reduced says what it was. Of settings of one kind that become equal the first stays;
/// derived held-out sizes are derived anew from the smaller first setting. A task without caps
/// stays as it is.
Task Reduced(Task task);

}  // namespace cupel::task
