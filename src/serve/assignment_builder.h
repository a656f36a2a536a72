// Builds the assignments that are sent to workers: items with file contents instead of paths.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "serve/protocol.h"
#include "task/task.h"

namespace cupel::serve {

/// Not thread-safe. Reads each task once, and kernels again each time.
class AssignmentBuilder {
 public:
  /// Errors: the kernel or the task cannot be read, has changed since the run began, or is too
  /// large to send; the task does not have the item's direction.
  Result<Assignment> Prepare(const Item& item, const std::filesystem::path& tasks_root);
  /// The task of an item that was prepared; otherwise null.
  const task::Task* TaskOf(const Item& item) const;

 private:
  struct Loaded {
    task::Task task;
    TaskBundle bundle;
    std::string question_hash[2];  // by direction, when the task was read
  };
  std::map<std::string, Loaded> tasks_;
};

}  // namespace cupel::serve
