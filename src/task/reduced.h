// Smaller sizes of a task for the emulator, if the task's own sizes are too large to emulate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "task/task.h"

namespace cupel::task {

/// Reads task.json's "emulator_forward" or "emulator_backward": {"at_most": {keyword: number}}.
/// Returns an error for a keyword that no setting has.
Result<Json> ReadCaps(const Json& emulator, const std::vector<Setting>& settings,
                      std::string_view what);

/// Applies the caps of task.json to every number they name, alone or in a list. Setting::reduced
/// records the original numbers. If settings of one kind become equal, only the first is kept.
/// Derived held-out sizes are derived again from the smaller first setting. A task without caps is
/// returned unchanged.
Task Reduced(Task task);

}  // namespace cupel::task
