// Makes a Python child (oracle.py, baseline.py, filter.py) load a task's code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "oracle/torch_child.h"
#include "task/task.h"

namespace cupel::oracle {

/// The child's name for the task.
std::string ChildTaskId(const task::Task& task, task::Direction direction);

/// Returns kInvalidArgument if the task does not have the direction.
Status RequireDirection(const task::Task& task, task::Direction direction);

/// Makes the child run the task's code, as request `id`. With `on_cpu` the task's truth is not
/// computed on a GPU. If the code does not load, or ends the child, returns kInvalidArgument with
/// Python's message.
Status LoadInChild(TorchChild& child, int64_t id, const task::Task& task, task::Direction direction,
                   bool on_cpu = false);

}  // namespace cupel::oracle
