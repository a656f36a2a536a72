// SPDX-License-Identifier: Apache-2.0
#include "gpu/gpu_lock.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace cupel::gpu {
namespace {

constexpr std::chrono::minutes kLockTimeout{10};
constexpr const char* kTurn = ".turn";

}  // namespace

std::filesystem::path LockFile(const std::filesystem::path& folder, const std::string& uuid) {
  return folder / (uuid + ".lock");
}

Result<GpuLock> GpuLock::Open(const std::filesystem::path& folder, const std::string& uuid,
                              std::stop_token stop, std::function<void(bool)> waiting,
                              std::chrono::milliseconds report_every) {
  GpuLock lock;
  lock.stop_ = std::move(stop);
  lock.waiting_ = std::move(waiting);
  lock.report_every_ = report_every;
  if (folder.empty()) return lock;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto path = LockFile(folder, uuid);
  TRY_ASSIGN(lock.file_, os::OpenLockFile(path));
  TRY_ASSIGN(lock.turn_, os::OpenLockFile(path.string() + kTurn));
  return lock;
}

Status GpuLock::Wait(const os::Fd& file, os::Lock lock,
                     std::chrono::steady_clock::time_point end) const {
  for (bool reported = false;; reported = true) {
    const auto now = std::chrono::steady_clock::now();
    auto got = os::Acquire(file, lock, waiting_ ? std::min(end, now + report_every_) : end, stop_);
    if (got && reported) waiting_(false);
    if (got || got.error().code != ErrorCode::kTimeout) return got;
    if (now + report_every_ >= end || !waiting_) break;
    waiting_(true);
  }
  return Fail(ErrorCode::kTimeout, "another cupel process has locked the GPU for ten minutes",
              "wait for it, or choose another GPU with --device gpu:N");
}

Status GpuLock::Acquire(Use use) {
  if (!file_ || use == use_ || use == Use::kNone) {
    if (use == Use::kNone) Release();
    use_ = use;
    return {};
  }
  const auto end = std::chrono::steady_clock::now() + kLockTimeout;
  TRY(Wait(turn_, os::Lock::kExclusive, end));
  auto got = Wait(file_, use == Use::kAlone ? os::Lock::kExclusive : os::Lock::kShared, end);
  os::Unlock(turn_);
  if (got) use_ = use;
  return got;
}

void GpuLock::Release() {
  if (file_ && use_ != Use::kNone) os::Unlock(file_);
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
