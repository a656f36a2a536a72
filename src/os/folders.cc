// SPDX-License-Identifier: Apache-2.0
#include "os/folders.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "os/files.h"
#include "os/programs.h"
#include "os/sandbox_plan.h"

namespace cupel::os {

namespace fs = std::filesystem;

namespace {

Status MakePrivateFolder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return FailIo("create the folder", path, errno);
  }
  struct stat info{};
  if (stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return FailIo("use the folder", path, ENOTDIR);
  }
  return {};
}

}  // namespace

Result<fs::path> CacheDir() {
  fs::path path = Variable("CUPEL_CACHE");
  if (path.empty()) {
    if (const fs::path xdg = Variable("XDG_CACHE_HOME"); xdg.is_absolute()) {
      path = xdg / "cupel";
    } else if (fs::path home = Variable("HOME"); home.is_absolute()) {
      path = home / ".cache" / "cupel";
    } else {
      return Fail(ErrorCode::kEnvironment, "no cache folder: HOME is not set",
                  "set CUPEL_CACHE to a folder");
    }
  }
  std::error_code error;
  path = fs::absolute(path, error);
  if (!path.has_filename()) path = path.parent_path();
  if (auto made = MakePrivateFolder(path); !made) {
    Error e = made.error();
    e.code = ErrorCode::kEnvironment;
    e.remedy = "set CUPEL_CACHE to a folder you can write to";
    return tl::unexpected<Error>(std::move(e));
  }
  return path;
}

Result<fs::path> DataDir() {
  const auto has_data = [](const fs::path& dir) {
    std::error_code error;
    return fs::is_regular_file(dir / "shim" / "cupel" / "abi.h", error);
  };
  if (const char* home = std::getenv("CUPEL_HOME"); home != nullptr && *home != '\0') {
    std::error_code error;
    fs::path dir = fs::absolute(home, error);
    if (has_data(dir)) return dir;
    return Fail(ErrorCode::kEnvironment,
                fmt::format("CUPEL_HOME is {}, which has no shim/ folder", dir.string()),
                "set it to the folder that contains cupel's shim/ and tasks/, or unset it");
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& dir :
       {program, program.parent_path(), program.parent_path() / "share" / "cupel"}) {
    if (has_data(dir)) return dir;
  }
  return Fail(ErrorCode::kEnvironment,
              fmt::format("cupel's data (shim/, tasks/) not found near {}", program.string()),
              "set CUPEL_HOME to the folder that contains them");
}

}  // namespace cupel::os
