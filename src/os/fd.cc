// SPDX-License-Identifier: Apache-2.0
#include "os/fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "os/cancel.h"
#include "os/sandbox_plan.h"
#include "os/sigpipe.h"

namespace cupel::os {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kRandomPart = 6;  // mkdtemp's

/// The prefix of the names of all TempDirs since this machine was booted. It contains the boot ID
/// because locks do not always work between machines that share a folder.
std::string TempPrefix() {
  constexpr size_t kEnough = 8;
  const auto boot = ReadFile("/proc/sys/kernel/random/boot_id", 4096);
  return fmt::format("cupel-temp-{}-", boot ? boot->substr(0, kEnough) : "0");
}

/// The error of a failed system call on `path`, with a remedy for a full disk or for permissions.
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

/// Milliseconds for poll(2): -1 without a deadline, never negative with one.
int PollTimeout(std::optional<Clock::time_point> end) {
  if (!end) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end - Clock::now()).count();
  return static_cast<int>(std::min<int64_t>(std::max<int64_t>(left, 0), 1 << 30));
}

/// Waits until `fd` is ready, the deadline passes or the user cancels.
Status Await(int fd, short events, std::optional<Clock::time_point> end, const char* what) {
  for (;;) {
    if (CancelRequested()) return Fail(ErrorCode::kCancelled, "cancelled");
    pollfd fds[2] = {{fd, events, 0}, {CancelFd(), POLLIN, 0}};
    const int n = poll(fds, 2, PollTimeout(end));
    if (n < 0 && errno != EINTR) {
      return Fail(ErrorCode::kIo, fmt::format("cannot {}: {}", what, std::strerror(errno)));
    }
    if (n > 0 && fds[0].revents != 0) return {};
    if (n == 0) return Fail(ErrorCode::kTimeout, fmt::format("timed out: {}", what));
  }
}

std::optional<Clock::time_point> EndOf(std::optional<std::chrono::milliseconds> deadline) {
  if (!deadline) return std::nullopt;
  return Clock::now() + *deadline;
}

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

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = other.Release();
  }
  return *this;
}

int Fd::Release() { return std::exchange(fd_, -1); }

void Fd::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

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
    // Root gives the folders of its sandboxes to nobody.
    const bool of_sandbox = getuid() == 0 && info.st_uid == kNobody;
    if (info.st_uid != getuid() && !of_sandbox) continue;
    if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) RemoveTree(entry->path());
  }
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

Status WriteAll(int fd, std::string_view bytes, std::optional<std::chrono::milliseconds> deadline) {
  const SigpipeGuard guard;
  const auto end = EndOf(deadline);
  while (!bytes.empty()) {
    // At most PIPE_BUF bytes at once: a pipe that poll reports as writable accepts them without
    // blocking.
    TRY(Await(fd, POLLOUT, end, "write to a child process"));
    const ssize_t n = write(fd, bytes.data(), std::min<size_t>(bytes.size(), 4096));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) {
      return Fail(ErrorCode::kIo, fmt::format("cannot write: {}", std::strerror(errno)),
                  errno == ENOSPC ? "free space on the disk" : "");
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Result<size_t> ReadSome(int fd, std::span<char> buffer,
                        std::optional<std::chrono::milliseconds> deadline) {
  const auto end = EndOf(deadline);
  for (;;) {
    TRY(Await(fd, POLLIN, end, "read from a child process"));
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR && errno != EAGAIN) {
      return Fail(ErrorCode::kIo, fmt::format("cannot read: {}", std::strerror(errno)));
    }
  }
}

Result<fs::path> CacheDir() {
  const auto variable = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  fs::path path = variable("CUPEL_CACHE");
  if (path.empty()) {
    if (fs::path xdg = variable("XDG_CACHE_HOME"); xdg.is_absolute()) {
      path = xdg / "cupel";
    } else if (fs::path home = variable("HOME"); home.is_absolute()) {
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
