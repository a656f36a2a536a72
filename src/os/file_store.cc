// SPDX-License-Identifier: Apache-2.0
#include "os/file_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <vector>

#include "base/hash.h"
#include "os/file_lock.h"
#include "os/files.h"
#include "os/trim.h"

namespace cupel::os {

namespace fs = std::filesystem;

namespace {

/// The end of a file's name while it is written. Older ones were left behind.
constexpr const char* kNew = ".new";
constexpr std::chrono::hours kLongestWrite{1};
constexpr const char* kFolderLock = "lock";
constexpr uint64_t kTrimsForALimit = 64;

}  // namespace

Result<Fd> FileStore::Lock(const std::string& name) const {
  if (root_.empty()) return Fail(ErrorCode::kNotFound, "there is no cache folder");
  std::error_code ignored;
  fs::create_directories(root_, ignored);
  chmod(root_.c_str(), 0700);
  const fs::path path = PathOf(name);
  mkdir(path.parent_path().c_str(), 0700);
  return LockFile(path, stop_);
}

Result<MappedFile> FileStore::Open(const std::string& name) const {
  const fs::path path = PathOf(name);
  TRY_ASSIGN(MappedFile file, MappedFile::Open(path));
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // last used: now
  return file;
}

Status FileStore::Write(const std::string& name, const std::function<Status(int fd)>& write) const {
  const fs::path path = PathOf(name), early = path.string() + kNew;
  const Fd file(open(early.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return FailIo("write", early, errno);
  Status status = write(file.get());
  if (status && rename(early.c_str(), path.c_str()) != 0) status = FailIo("write", path, errno);
  if (!status) Remove(name + kNew);
  return status;
}

Status FileStore::Write(const std::string& name, std::string_view bytes) const {
  return Write(name, [&](int fd) { return WriteAll(fd, bytes); });
}

void FileStore::Remove(const std::string& name) const {
  std::error_code ignored;
  fs::remove(PathOf(name), ignored);
}

void FileStore::Trim() const {
  std::vector<TrimEntry> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root_, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.native().ends_with("lock")) continue;
    if (entry.depth() == 0 && path.extension() == ".json") continue;
    std::error_code ignored;
    const uint64_t bytes = entry->file_size(ignored);
    if (ignored) continue;  // a folder, or removed by another process
    const auto used = entry->last_write_time(ignored);
    // Another process is writing it.
    if (path.extension() == kNew && fs::file_time_type::clock::now() - used < kLongestWrite)
      continue;
    files.push_back({used, bytes, path});
  }
  os::Trim(std::move(files), {.bytes = limit_, .entries = kMostFiles}, [&](const TrimEntry& file) {
    std::error_code ignored;
    fs::remove(file.path.string() + ".lock", ignored);
    const bool removed = fs::remove(file.path, ignored);
    RemoveIfUnused(file.path.parent_path());
    return removed;
  });
}

void FileStore::TrimAfter(uint64_t written) const {
  if (EntropySeed() % std::max<uint64_t>(limit_ / kTrimsForALimit, 1) < written) Trim();
}

/// Removes a folder that has nothing but its lock file. A process that waits for this lock gets one
/// that no other process will wait for: at worst, files that it writes are lost.
void FileStore::RemoveIfUnused(const fs::path& folder) const {
  if (folder == root_) return;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename() != kFolderLock) return;
  }
  fs::remove(folder / kFolderLock, ignored);
  fs::remove(folder, ignored);
}

}  // namespace cupel::os
