// Items as what is sent: contents in place of paths. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "serve/protocol.h"
#include "task/task.h"

namespace cupel::serve {

/// Not thread-safe. Reads each task once; kernels anew each time.
class Errands {
 public:
  /// Errors: a kernel or a task that cannot be read, or is too large to send.
  Result<Assignment> Prepare(const Item& item, const std::filesystem::path& tasks_root);
  /// The task of an item that was prepared; null for any other.
  const task::Task* TaskOf(const Item& item) const;

 private:
  struct Loaded {
    task::Task task;
    Parcel parcel;
    std::string question_hash[2];  // by direction, of the task as it was read
  };
  std::map<std::string, Loaded> tasks_;
};

}  // namespace cupel::serve
