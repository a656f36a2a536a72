// SPDX-License-Identifier: Apache-2.0
#include "os/programs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

namespace cupel::os {

namespace fs = std::filesystem;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool CanRun(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::vector<fs::path> FoldersOf(std::string_view path) {
  std::vector<fs::path> folders;
  while (!path.empty()) {
    const size_t end = std::min(path.find(':'), path.size());
    fs::path folder(path.substr(0, end));
    if (folder.is_absolute()) folders.push_back(std::move(folder));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return folders;
}

std::optional<fs::path> FindProgram(const std::string& name, const std::vector<fs::path>& folders) {
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string::npos) {
    std::error_code error;
    fs::path path = fs::absolute(name, error);
    return !error && CanRun(path) ? std::optional(path) : std::nullopt;
  }
  for (const fs::path& folder : folders) {
    if (CanRun(folder / name)) return folder / name;
  }
  return std::nullopt;
}

std::optional<fs::path> FindProgram(const std::string& name) {
  const char* path = std::getenv("PATH");
  return FindProgram(name, FoldersOf(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin"));
}

Result<fs::path> FindTool(const Tool& tool) {
  if (fs::path named = Variable(tool.variable); !named.empty()) {
    if (CanRun(named)) return named;
    return Fail(ErrorCode::kEnvironment,
                fmt::format("{} is {}, which is not a program", tool.variable, named.string()),
                fmt::format("set it to the path of {}, or unset it", tool.name));
  }
  if (const auto found = FindProgram(tool.name, tool.folders)) return *found;
  return tl::unexpected<Error>(tool.missing);
}

}  // namespace cupel::os
