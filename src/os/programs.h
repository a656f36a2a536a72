// Finds programs as a shell does: in the folders of PATH.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::os {

/// The value of a variable of this process's environment; empty if it is not set.
std::string Variable(const char* name);

/// Whether the path is a file that this user may execute.
bool CanRun(const std::filesystem::path& path);

/// The absolute folders of a PATH, in order. Others are left out: what they contain depends on the
/// current folder.
std::vector<std::filesystem::path> FoldersOf(std::string_view path);

/// The first program `name` in the folders. A name with a slash is a path itself.
std::optional<std::filesystem::path> FindProgram(const std::string& name,
                                                 const std::vector<std::filesystem::path>& folders);
/// The same in the folders of this process's PATH, or the usual ones if it is not set.
std::optional<std::filesystem::path> FindProgram(const std::string& name);

/// A program of a toolkit, which the user may name in an environment variable.
struct Tool {
  const char* variable = "";  // "CUPEL_NVCC"
  std::string name;           // "nvcc"
  std::vector<std::filesystem::path> folders;
  Error missing;  // if it is in none of the folders
};
Result<std::filesystem::path> FindTool(const Tool& tool);

}  // namespace cupel::os
