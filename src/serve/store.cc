// SPDX-License-Identifier: Apache-2.0
#include "serve/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/hash.h"
#include "os/fd.h"
#include "os/trim.h"

namespace cupel::serve {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> FailAt(const fs::path& path) {
  return Fail(ErrorCode::kIo, fmt::format("cannot write {}: {}", path.string(), strerror(errno)),
              "free disk space, or set CUPEL_CACHE to another folder");
}

/// The lock is held until the descriptor closes or the process dies.
Result<os::Fd> Lock(const fs::path& path, const std::stop_token& stop) {
  os::Fd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return FailAt(path);
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return FailAt(path);
    if (stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return lock;
}

}  // namespace

Result<os::MappedFile> FileStore::Get(const std::string& sha256, int64_t bytes,
                                      const FetchPart& fetch) {
  const fs::path path = folder_ / sha256;
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
  ::chmod(folder_.c_str(), 0700);  // case files contain the expected outputs
  TRY_ASSIGN(const os::Fd lock, Lock(folder_ / (sha256 + ".lock"), stop_));
  if (auto known = Open(path, sha256, bytes)) return known;
  TRY(FetchInto(path, sha256, bytes, fetch));
  auto file = Open(path, sha256, bytes);
  Trim();
  return file;
}

Result<os::MappedFile> FileStore::Open(const fs::path& path, const std::string& sha256,
                                       int64_t bytes) const {
  TRY_ASSIGN(os::MappedFile file, os::MappedFile::Open(path));
  if (file.bytes().size() != static_cast<size_t>(bytes) || Sha256Hex(file.text()) != sha256) {
    return Fail(ErrorCode::kIo, fmt::format("{} is damaged", path.string()));
  }
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // last used: now
  return file;
}

Status FileStore::FetchInto(const fs::path& path, const std::string& sha256, int64_t bytes,
                            const FetchPart& fetch) const {
  const fs::path early = path.string() + ".part";
  const os::Fd file(
      open(early.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return FailAt(early);
  Sha256 hash;
  for (int64_t offset = 0; offset < bytes;) {
    TRY_ASSIGN(const std::string part, fetch(offset));
    if (part.empty() || static_cast<int64_t>(part.size()) > bytes - offset) {
      return Fail(ErrorCode::kIo,
                  "the coordinator sent fewer or more bytes of a case than announced");
    }
    hash.Update(part);
    TRY(os::WriteAll(file.get(), part));
    offset += static_cast<int64_t>(part.size());
  }
  if (hash.Hex() != sha256) {
    return Fail(ErrorCode::kIo, "a case arrived damaged: its hash differs from the one announced");
  }
  if (rename(early.c_str(), path.c_str()) != 0) return FailAt(path);
  return {};
}

void FileStore::Trim() const {
  os::TrimFolder(
      folder_, limit_, [](const fs::path& path) { return path.extension() != ".lock"; },
      [](const fs::path& path) {
        std::error_code ignored;
        fs::remove(path.string() + ".lock", ignored);
      });
}

}  // namespace cupel::serve
