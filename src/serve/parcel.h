// Files that travel by content: a kernel, a task's folder. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "task/task.h"

namespace cupel::serve {

struct ParcelFile {
  std::string name;  // without a folder
  std::string bytes;
};

/// A task as its files: those that lie in its folder itself, or the one of a KernelBench problem.
struct Parcel {
  std::string name;  // of the folder, or of the file
  bool is_folder = true;
  std::vector<ParcelFile> files;
};

inline constexpr size_t kMostTaskBytes = 16u << 20;
inline constexpr size_t kMostTaskFiles = 1024;

/// True for a name that names a file in its folder and nothing else.
bool IsFileName(const std::string& name);

/// Reads the files of a task that was loaded. Hidden files, links and kernels stay behind: judging
/// reads none of them.
Result<Parcel> PackTask(const task::Task& task);

/// Writes the files below `folder`, which must be private, and returns the task's path there.
Result<std::filesystem::path> Unpack(const Parcel& parcel, const std::filesystem::path& folder);

Json ToJson(const Parcel& parcel);
Result<Parcel> ReadParcel(const Json& json);

}  // namespace cupel::serve
