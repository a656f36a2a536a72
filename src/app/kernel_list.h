// Reads a list of kernels and their tasks: a file with one line of JSON for each kernel,
// {"kernel": "k.cu", "sources": ["binding.cpp"], "task": "mnist_linear", "backward": false}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "task/task.h"

namespace cupel::app {

struct ListedKernel {
  std::filesystem::path kernel;
  std::vector<std::filesystem::path> sources;  // other files of the kernel
  std::string task;                            // a name under tasks/, a folder, or a .py file
  task::Direction direction = task::Direction::kForward;
};

/// Calls `take` for every line, in order. The first Error, also one from `take`, stops the reading.
/// It names the line.
Status ReadKernelList(const std::filesystem::path& list,
                      const std::function<Status(const ListedKernel& kernel)>& take);

}  // namespace cupel::app
