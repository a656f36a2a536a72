// The tasks that come with cupel, and their description as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "task/task.h"

namespace cupel::app {

/// Calls `take` for each task that comes with cupel, in the order of the names.
Status ListTasks(const std::function<void(const task::Task& task)>& take);

/// Loads a task by its name or path.
Result<task::Task> TaskNamed(const std::string& name);

/// The document "cupel.task/1" without its schema. "cupel.tasks/1" is a list of them.
Json TaskJson(const task::Task& task);

}  // namespace cupel::app
