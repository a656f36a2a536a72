// Finds the tasks in a folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace cupel::app {

/// A task in a folder of tasks: its name there, and the path that LoadTask takes.
struct TaskFile {
  std::string name;
  std::filesystem::path path;
};
/// Whether `folder` is one task in the folder format.
bool IsTaskFolder(const std::filesystem::path& folder);
/// Task folders and KernelBench problems (.py) in `folder` and in its subfolders, in the natural
/// order of their names. Errors: kNotFound if there is none.
Result<std::vector<TaskFile>> FindTaskFiles(const std::filesystem::path& folder);

}  // namespace cupel::app
