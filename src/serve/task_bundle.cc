// SPDX-License-Identifier: Apache-2.0
#include "serve/task_bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "os/files.h"

namespace cupel::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBaselines = "baselines/";

/// Of a file in a bundle.
bool IsBundleName(const std::string& name) {
  return IsFileName(name.starts_with(kBaselines) ? name.substr(kBaselines.size()) : name);
}

/// Adds the paths of a folder's files, except hidden ones, links and kernels.
void AddFiles(const fs::path& folder, std::vector<fs::path>& paths) {
  std::error_code error, ignored;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.extension() == ".cu" || path.filename().string().starts_with(".")) continue;
    const bool is_own = entry->is_regular_file(ignored) && !entry->is_symlink(ignored);
    if (is_own) paths.push_back(path);
    if (paths.size() > kMostTaskFiles) break;
  }
}

/// The last name of the path, even if the path ends in a slash or a dot.
std::string LastName(const fs::path& path) {
  std::error_code ignored;
  const fs::path whole = fs::absolute(path, ignored).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

}  // namespace

bool IsFileName(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

Result<TaskBundle> PackTask(const task::Task& task) {
  TaskBundle bundle;
  bundle.is_folder = task.format == task::Format::kFolder;
  bundle.name = LastName(task.path);
  std::vector<fs::path> paths;
  if (bundle.is_folder) {
    AddFiles(task.path, paths);
    AddFiles(task.path / kBaselines, paths);
  } else {
    paths.push_back(task.path);
  }
  std::sort(paths.begin(), paths.end());
  size_t total = 0;
  for (const fs::path& path : paths) {
    TRY_ASSIGN(std::string bytes, os::ReadFile(path, kMostTaskBytes));
    total += bytes.size();
    const fs::path name = bundle.is_folder ? path.lexically_relative(task.path) : path.filename();
    bundle.files.push_back({name.string(), std::move(bytes)});
    if (total > kMostTaskBytes) break;
  }
  if (total > kMostTaskBytes || paths.size() > kMostTaskFiles) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the task {} has more than {} files or {} MiB, too much to send",
                            task.path.string(), kMostTaskFiles, kMostTaskBytes >> 20),
                "keep only what the task needs in its folder");
  }
  return bundle;
}

Result<fs::path> Unpack(const TaskBundle& bundle, const fs::path& folder) {
  const fs::path target = bundle.is_folder ? folder / bundle.name : folder;
  std::error_code error;
  if (bundle.is_folder) fs::create_directory(target, error);
  if (error) {
    return Fail(ErrorCode::kIo,
                fmt::format("cannot create {}: {}", target.string(), error.message()),
                "set TMPDIR to a folder with free space");
  }
  for (const BundleFile& file : bundle.files) {
    if (file.name.starts_with(kBaselines)) fs::create_directory(target / kBaselines, error);
    TRY(os::WriteFileAtomically(target / file.name, file.bytes));
  }
  return bundle.is_folder ? target : folder / bundle.name;
}

Json ToJson(const TaskBundle& bundle) {
  Json json{{"name", bundle.name}, {"folder", bundle.is_folder}, {"files", Json::array()}};
  for (const BundleFile& file : bundle.files) {
    json["files"].push_back({{"name", file.name}, {"data", Base64Encode(file.bytes)}});
  }
  return json;
}

Result<TaskBundle> ReadTaskBundle(const Json& json) {
  TaskBundle bundle;
  TRY_ASSIGN(bundle.name, JsonString(json, "name", "task"));
  TRY_ASSIGN(bundle.is_folder, JsonBool(json, "folder", "task"));
  TRY_ASSIGN(const Json* files, JsonArray(json, "files", "task"));
  const auto malformed = [](const char* what) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("task: {}", what));
  };
  if (!IsFileName(bundle.name)) return malformed("its name is not a valid file name");
  if (files->size() > kMostTaskFiles) return malformed("too many files");
  size_t total = 0;
  for (const Json& item : *files) {
    BundleFile file;
    TRY_ASSIGN(file.name, JsonString(item, "name", "task file"));
    TRY_ASSIGN(const std::string data, JsonString(item, "data", "task file"));
    if (!IsBundleName(file.name)) return malformed("invalid file name");
    TRY_ASSIGN(file.bytes, Base64Decode(data, "task file"));
    total += file.bytes.size();
    if (total > kMostTaskBytes) return malformed("it is too large");
    bundle.files.push_back(std::move(file));
  }
  return bundle;
}

}  // namespace cupel::serve
