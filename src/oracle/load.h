// How a Python child is told of a task's code, be it oracle.py or baseline.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "oracle/torch_child.h"
#include "task/task.h"

namespace cupel::oracle {

/// The name under which the child keeps the task.
std::string ChildTaskId(const task::Task& task, task::Direction direction);

/// kInvalidArgument when the task has no such direction.
Status RequireDirection(const task::Task& task, task::Direction direction);

/// Has the child run the task's code, as request `id`. Code that does not load, or that ends the
/// child, is kInvalidArgument with what Python said.
Status LoadInChild(TorchChild& child, int64_t id, const task::Task& task,
                   task::Direction direction);

}  // namespace cupel::oracle
