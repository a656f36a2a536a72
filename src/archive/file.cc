// SPDX-License-Identifier: Apache-2.0
#include "archive/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

namespace cupel::archive {
namespace {

namespace fs = std::filesystem;

Error OpenError(const fs::path& file, int code) {
  return {
      code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
      fmt::format("cannot open {}: {}", file.string(), std::strerror(code)),
      code == ENOENT ? "check the run's name" : "check the permissions of the file and its folder"};
}

/// A temporary database file. Removes it and SQLite's auxiliary files.
class Partial {
 public:
  explicit Partial(fs::path path) : path_(std::move(path)) { Remove(); }
  ~Partial() { Remove(); }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;
  const fs::path& path() const { return path_; }

 private:
  void Remove() const {
    std::error_code ignored;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
      fs::remove(path_.string() + suffix, ignored);
    }
  }
  fs::path path_;
};

Error Exists(const fs::path& file) {
  return {ErrorCode::kInvalidArgument, fmt::format("{} already exists", file.string()),
          "resume it, or choose another name"};
}

/// Tries twice, since a reader in HasOwner holds the lock for a moment.
bool LockAsOwner(int fd) {
  constexpr auto kMoment = std::chrono::milliseconds(20);
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
  std::this_thread::sleep_for(kMoment);
  return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

Result<Claim> Claim::Make(const fs::path& file, Access access) {
  const bool owner = access == Access::kOwner;
  os::Fd fd(::open(file.c_str(), (owner ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK));
  const int code = errno;
  struct stat info{};
  if (!fd && code != EISDIR) return tl::unexpected(OpenError(file, code));
  if (!fd || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot open {}: it is not a regular file", file.string()));
  }
  if (owner && !LockAsOwner(fd.get())) {
    return Fail(ErrorCode::kIo,
                fmt::format("cannot open {}: another cupel is working on this run", file.string()),
                "wait for that process or end it");
  }
  return Claim(std::move(fd), access);
}

bool Claim::HasOwner() const {
  if (access_ == Access::kOwner) return true;
  if (flock(fd_.get(), LOCK_SH | LOCK_NB) != 0) return errno == EWOULDBLOCK;
  flock(fd_.get(), LOCK_UN);
  return false;
}

Status CreateAtomically(const fs::path& file, const std::function<Status(const fs::path&)>& write) {
  std::error_code code;
  if (fs::exists(fs::symlink_status(file, code))) return tl::unexpected(Exists(file));
  if (file.has_parent_path()) {
    fs::create_directories(file.parent_path(), code);
    if (code) return tl::unexpected(OpenError(file.parent_path(), code.value()));
  }
  const Partial partial(file.parent_path() /
                        fmt::format(".{}.{}.partial", file.filename().string(), getpid()));
  TRY(write(partial.path()));
  if (renameat2(AT_FDCWD, partial.path().c_str(), AT_FDCWD, file.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST) return tl::unexpected(Exists(file));
    // Some file systems do not support RENAME_NOREPLACE. A hard link does not replace files either.
    if (errno != EINVAL || link(partial.path().c_str(), file.c_str()) != 0) {
      return tl::unexpected(OpenError(file, errno));
    }
  }
  return {};
}

}  // namespace cupel::archive
