// SPDX-License-Identifier: Apache-2.0
#include "gpu/gpu_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace cupel::gpu {
namespace {

constexpr std::chrono::minutes kLockTimeout{10};
constexpr std::chrono::milliseconds kPause{1};
constexpr const char* kTurn = ".turn";

Result<os::Fd> OpenFile(const std::filesystem::path& path) {
  os::Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file) return file;
  return Fail(ErrorCode::kIo,
              fmt::format("cannot open {}: {}", path.string(), std::strerror(errno)),
              "check the permissions of cupel's cache folder, or set CUPEL_CACHE");
}

Status Wait(const os::Fd& file, int operation, std::chrono::steady_clock::time_point end,
            const std::stop_token& stop) {
  while (::flock(file.get(), operation | LOCK_NB) != 0) {
    if (stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
    if (std::chrono::steady_clock::now() > end) {
      return Fail(ErrorCode::kTimeout, "another cupel process has locked the GPU for ten minutes",
                  "wait for it, or choose another GPU with --device gpu:N");
    }
    std::this_thread::sleep_for(kPause);
  }
  return {};
}

}  // namespace

std::filesystem::path LockFile(const std::filesystem::path& folder, const std::string& uuid) {
  return folder / (uuid + ".lock");
}

Result<GpuLock> GpuLock::Open(const std::filesystem::path& folder, const std::string& uuid,
                              std::stop_token stop) {
  GpuLock lock;
  lock.stop_ = std::move(stop);
  if (folder.empty()) return lock;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto path = LockFile(folder, uuid);
  TRY_ASSIGN(lock.file_, OpenFile(path));
  TRY_ASSIGN(lock.turn_, OpenFile(path.string() + kTurn));
  return lock;
}

Status GpuLock::Acquire(Use use) {
  if (!file_ || use == use_ || use == Use::kNone) {
    if (use == Use::kNone) Release();
    use_ = use;
    return {};
  }
  const auto end = std::chrono::steady_clock::now() + kLockTimeout;
  TRY(Wait(turn_, LOCK_EX, end, stop_));
  auto got = Wait(file_, use == Use::kAlone ? LOCK_EX : LOCK_SH, end, stop_);
  ::flock(turn_.get(), LOCK_UN);
  if (got) use_ = use;
  return got;
}

void GpuLock::Release() {
  if (file_ && use_ != Use::kNone) ::flock(file_.get(), LOCK_UN);
  use_ = Use::kNone;
}

Result<GpuHold> GpuHold::Shared(GpuLock& lock) {
  if (lock.use() != GpuLock::Use::kNone) return GpuHold(nullptr);
  TRY(lock.Acquire(GpuLock::Use::kShared));
  return GpuHold(&lock);
}

GpuHold::GpuHold(GpuHold&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}

GpuHold::~GpuHold() {
  if (lock_ != nullptr) lock_->Release();
}

}  // namespace cupel::gpu
