// SPDX-License-Identifier: Apache-2.0
#include "serve/task_bundle.h"

#include <fmt/format.h>

#include <algorithm>

#include "os/files.h"

namespace cupel::serve {
namespace {

namespace fs = std::filesystem;

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
  if (!bundle.is_folder) paths.push_back(task.path);
  std::error_code error;
  for (fs::directory_iterator entry(bundle.is_folder ? task.path : fs::path(), error), end;
       bundle.is_folder && !error && entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    std::error_code ignored;
    if (path.extension() == ".cu" || path.filename().string().starts_with(".")) continue;
    if (entry->is_regular_file(ignored)) paths.push_back(path);
    if (paths.size() > kMostTaskFiles) break;
  }
  std::sort(paths.begin(), paths.end());
  size_t total = 0;
  for (const fs::path& path : paths) {
    TRY_ASSIGN(std::string bytes, os::ReadFile(path, kMostTaskBytes));
    total += bytes.size();
    bundle.files.push_back({path.filename().string(), std::move(bytes)});
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
    if (!IsFileName(file.name)) return malformed("invalid file name");
    TRY_ASSIGN(file.bytes, Base64Decode(data, "task file"));
    total += file.bytes.size();
    if (total > kMostTaskBytes) return malformed("it is too large");
    bundle.files.push_back(std::move(file));
  }
  return bundle;
}

}  // namespace cupel::serve
