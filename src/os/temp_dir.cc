// SPDX-License-Identifier: Apache-2.0
#include "os/temp_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "os/files.h"
#include "os/sandbox_plan.h"

namespace cupel::os {

namespace fs = std::filesystem;

namespace {

constexpr size_t kRandomPart = 6;  // mkdtemp's

/// The prefix of the names of all TempDirs since this machine was booted. It contains the boot ID
/// because locks do not always work between machines that share a folder.
std::string TempPrefix() {
  constexpr size_t kEnough = 8;
  const auto boot = ReadFile("/proc/sys/kernel/random/boot_id", 4096);
  return fmt::format("cupel-temp-{}-", boot ? boot->substr(0, kEnough) : "0");
}

/// Removes a folder even if hostile code removed our permissions on parts of it.
void RemoveTree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  // Root needs no permission, and could change the permissions of files outside the folder.
  if (!error || geteuid() == 0) return;
  for (fs::recursive_directory_iterator
           it(path, fs::directory_options::skip_permission_denied, error),
       end;
       !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored) && !it->is_symlink(ignored)) {
      fs::permissions(it->path(), fs::perms::owner_all, ignored);
    }
  }
  fs::remove_all(path, error);
}

}  // namespace

Result<TempDir> TempDir::Create(const fs::path& parent) {
  fs::path base = parent;
  if (base.empty()) {
    const char* tmp = std::getenv("TMPDIR");
    base = tmp != nullptr && *tmp != '\0' ? tmp : "/tmp";
  }
  std::error_code error;
  base = fs::absolute(base, error);
  for (;;) {
    std::string name = (base / (TempPrefix() + std::string(kRandomPart, 'X'))).string();
    if (mkdtemp(name.data()) == nullptr) {
      auto fail = FailIo("create a temporary folder in", base, errno);
      if (fail.value().remedy.empty())
        fail.value().remedy = "set TMPDIR to a folder you can write to";
      return fail;
    }
    TempDir dir;
    dir.path_ = std::move(name);
    TRY_ASSIGN(const bool locked, dir.Lock());
    if (locked) return dir;
  }
}

Result<bool> TempDir::Lock() {
  lock_ = Fd(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!lock_ && errno != ENOENT) return FailIo("open the temporary folder", path_, errno);
  if (!lock_) return false;
  // Some file systems cannot lock folders; then no sweep can lock this folder, either.
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  return access(path_.c_str(), F_OK) == 0;
}

TempDir::TempDir(TempDir&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

TempDir& TempDir::operator=(TempDir&& other) noexcept {
  if (this != &other) {
    if (!path_.empty()) RemoveTree(path_);
    path_ = std::exchange(other.path_, {});
    lock_ = std::move(other.lock_);
  }
  return *this;
}

TempDir::~TempDir() {
  if (!path_.empty()) RemoveTree(path_);
}

void SweepTempDirs(const fs::path& parent) {
  const std::string prefix = TempPrefix();
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.size() != prefix.size() + kRandomPart || !name.starts_with(prefix)) continue;
    const Fd lock(open(entry->path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info{};
    if (!lock || fstat(lock.get(), &info) != 0) continue;
    // The user "nobody" owns the folders of sandboxes that root creates.
    const bool of_sandbox = getuid() == 0 && info.st_uid == kNobody;
    if (info.st_uid != getuid() && !of_sandbox) continue;
    if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) RemoveTree(entry->path());
  }
}

}  // namespace cupel::os
