// SPDX-License-Identifier: Apache-2.0
#include "os/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "os/fd.h"
#include "os/sigpipe.h"

namespace cupel::os {

namespace fs = std::filesystem;

tl::unexpected<Error> FailIo(std::string_view what, const fs::path& path, int error) {
  std::string remedy;
  if (error == ENOSPC || error == EDQUOT) {
    remedy = fmt::format("free space on the disk that holds {}", path.parent_path().string());
  } else if (error == EACCES || error == EPERM || error == EROFS) {
    remedy = "check its permissions";
  }
  const ErrorCode code =
      error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
  return Fail(code, fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(error)),
              std::move(remedy));
}

Result<std::string> ReadFile(const fs::path& path, size_t max_bytes) {
  // With O_NONBLOCK, opening a FIFO does not wait for a writer.
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return FailIo("read", path, errno);
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return FailIo("read", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return Fail(ErrorCode::kIo, fmt::format("cannot read {}: not a regular file", path.string()));
  }
  std::string bytes;
  // Files of /proc and /sys report no size, so the buffer grows while reading.
  bytes.resize(std::min<size_t>(static_cast<size_t>(info.st_size) + 1, max_bytes + 1));
  size_t used = 0;
  for (;;) {
    if (used == bytes.size()) bytes.resize(std::min(bytes.size() * 2 + 4096, max_bytes + 1));
    const ssize_t n = read(fd.get(), bytes.data() + used, bytes.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailIo("read", path, errno);
    if (n == 0) break;
    used += static_cast<size_t>(n);
    if (used > max_bytes) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is larger than {} bytes", path.string(), max_bytes));
    }
  }
  bytes.resize(used);
  return bytes;
}

namespace {

/// Blocking; 0, or the errno of the write that failed.
int WriteBytes(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

/// Writes directly to a device or pipe (/dev/stdout, /dev/full), which a rename cannot replace.
Status WriteInPlace(const fs::path& path, std::string_view bytes) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return FailIo("write", path, errno);
  if (const int error = WriteBytes(fd.get(), bytes); error != 0) {
    return FailIo("write", path, error);
  }
  return {};
}

}  // namespace

Status WriteFileAtomically(const fs::path& path, std::string_view bytes) {
  struct stat existing;
  if (stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode)) {
    return WriteInPlace(path, bytes);
  }
  std::string name = path.string() + ".XXXXXX";
  const Fd fd(mkostemp(name.data(), O_CLOEXEC));
  if (!fd) return FailIo("write", path, errno);
  const auto fail = [&](int error) {
    unlink(name.c_str());
    return FailIo("write", path, error);
  };
  if (const int error = WriteBytes(fd.get(), bytes); error != 0) return fail(error);
  const mode_t mask = umask(0);
  umask(mask);
  if (fchmod(fd.get(), 0666 & ~mask) != 0 || fsync(fd.get()) != 0) return fail(errno);
  if (rename(name.c_str(), path.c_str()) != 0) return fail(errno);
  return {};
}

Status MakeFolders(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return {};
  return FailIo("create", folder, error.value());
}

}  // namespace cupel::os
