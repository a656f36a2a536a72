// A task's files, sent to workers by content.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "task/task.h"

namespace cupel::serve {

struct BundleFile {
  std::string name;  // without a folder, or "baselines/NAME"
  std::string bytes;
};

/// The files of a task: those directly in its folder and its named baselines, or the single file of
/// a KernelBench problem.
struct TaskBundle {
  std::string name;  // of the folder or the single file
  bool is_folder = true;
  std::vector<BundleFile> files;
};

inline constexpr size_t kMostTaskBytes = 16u << 20;
inline constexpr size_t kMostTaskFiles = 1024;

/// True if `name` is a plain file name, without a path.
bool IsFileName(const std::string& name);

/// Reads the files of a loaded task, except hidden files, links and kernels, which judging does not
/// read.
Result<TaskBundle> PackTask(const task::Task& task);

/// Writes the files below `folder`, which must be private, and returns the task's path there.
Result<std::filesystem::path> Unpack(const TaskBundle& bundle, const std::filesystem::path& folder);

Json ToJson(const TaskBundle& bundle);
Result<TaskBundle> ReadTaskBundle(const Json& json);

}  // namespace cupel::serve
