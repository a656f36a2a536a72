// SPDX-License-Identifier: Apache-2.0
#include "app/new_folder.h"

#include <fmt/format.h>

#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::app {
namespace fs = std::filesystem;

Status CheckNewFolder(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error))) return {};
  if (fs::is_directory(folder, error) && !fs::is_symlink(folder, error) &&
      fs::is_empty(folder, error) && !error) {
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} exists and is not an empty folder", folder.string()),
              "choose another folder with -o");
}

Status WriteNewFolder(const fs::path& folder, const std::vector<NewFile>& files) {
  TRY(CheckNewFolder(folder));
  fs::path destination = fs::absolute(folder).lexically_normal();
  if (!destination.has_filename()) destination = destination.parent_path();
  std::error_code error;
  fs::create_directories(destination.parent_path(), error);
  TRY_ASSIGN(const os::TempDir staging, os::TempDir::Create(destination.parent_path()));
  const fs::path written = staging.path() / "files";
  fs::create_directory(written, error);
  for (const NewFile& file : files) {
    const fs::path path = written / file.path;
    fs::create_directories(path.parent_path(), error);
    TRY(os::WriteFileAtomically(path, file.text));
  }
  fs::rename(written, destination, error);
  if (!error) return {};
  return Fail(ErrorCode::kIo,
              fmt::format("cannot write {}: {}", destination.string(), error.message()));
}

}  // namespace cupel::app
