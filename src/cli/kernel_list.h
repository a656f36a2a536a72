// A list of kernels and the tasks that they are for: a file with a line of JSON for each,
// {"kernel": "k.cu", "task": "mnist_linear", "backward": false}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "task/task.h"

namespace cupel::cli {

struct ListedKernel {
  std::filesystem::path kernel;
  std::string task;  // a name under tasks/, a folder, or a .py file
  task::Direction direction = task::Direction::kForward;
};

/// Gives every line to `take`, in order. An Error, also one of `take`'s, ends it and names the
/// line.
Status ReadKernelList(const std::filesystem::path& list,
                      const std::function<Status(const ListedKernel& kernel)>& take);

}  // namespace cupel::cli
