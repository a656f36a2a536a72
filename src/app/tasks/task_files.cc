// SPDX-License-Identifier: Apache-2.0
#include "app/tasks/task_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <system_error>

#include "base/text.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTasks = 10000;

bool IsProblem(const fs::path& path) {
  std::error_code ignored;
  const std::string name = path.filename().string();
  return path.extension() == ".py" && name[0] != '_' && name[0] != '.' &&
         fs::is_regular_file(path, ignored);
}

/// Removes the digits at the front of `text`, and returns them without leading zeros.
std::string_view TakeNumber(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() && IsDigit(text[end])) ++end;
  std::string_view number = text.substr(0, end);
  text.remove_prefix(end);
  while (number.size() > 1 && number[0] == '0') number.remove_prefix(1);
  return number;
}

/// Natural order: task_9 comes before task_10.
bool Before(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (IsDigit(a[0]) && IsDigit(b[0])) {
      const std::string_view x = TakeNumber(a), y = TakeNumber(b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
      continue;
    }
    if (a[0] != b[0]) return a[0] < b[0];
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.size() < b.size();
}

/// Adds the tasks in `folder` and in its subfolders, `depth` levels down.
Status Collect(const fs::path& folder, const std::string& prefix, int depth,
               std::vector<TaskFile>& found) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    const std::string name = path.filename().string();
    std::error_code ignored;
    if (IsTaskFolder(path)) {
      found.push_back({prefix + name, path});
    } else if (IsProblem(path)) {
      found.push_back({prefix + path.stem().string(), path});
    } else if (depth > 0 && name[0] != '.' && fs::is_directory(path, ignored)) {
      TRY(Collect(path, prefix + name + "/", depth - 1, found));
    }
    if (found.size() > kMaxTasks) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} contains more than {} tasks", folder.string(), kMaxTasks),
                  "give one of its subfolders");
    }
  }
  if (!error) return {};
  return Fail(ErrorCode::kNotFound,
              fmt::format("cannot list {}: {}", folder.string(), error.message()),
              "give a folder of tasks");
}

}  // namespace

bool IsTaskFolder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "func_forward.py", ignored) ||
         fs::is_regular_file(folder / "func_backward.py", ignored);
}

Result<std::vector<TaskFile>> FindTaskFiles(const fs::path& folder) {
  if (IsTaskFolder(folder)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is one task, not a folder of tasks", folder.string()),
                "give the folder that contains it; for cupel task filter, leave out --all");
  }
  std::vector<TaskFile> found;
  TRY(Collect(folder, "", 1, found));
  if (found.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("no task in {} or in its subfolders", folder.string()),
                "a task is a folder with func_forward.py or func_backward.py, or a KernelBench "
                "problem (.py)");
  }
  std::sort(found.begin(), found.end(),
            [](const TaskFile& a, const TaskFile& b) { return Before(a.name, b.name); });
  return found;
}

}  // namespace cupel::app
