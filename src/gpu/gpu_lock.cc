// SPDX-License-Identifier: Apache-2.0
#include "gpu/gpu_lock.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace cupel::gpu {
namespace {

constexpr std::chrono::minutes kLockTimeout{10};
/// For all that measure before this process, or build: many workers may share a GPU.
constexpr std::chrono::minutes kQueueTimeout{60};
constexpr const char* kTurn = ".turn";
constexpr const char* kBuilding = ".building";

}  // namespace

std::filesystem::path LockFile(const std::filesystem::path& folder, const std::string& uuid) {
  return folder / (uuid + ".lock");
}

Result<GpuLock::Door> GpuLock::Door::Open(const std::filesystem::path& path) {
  Door door;
  TRY_ASSIGN(door.file, os::OpenLockFile(path));
  TRY_ASSIGN(door.turn, os::OpenLockFile(path.string() + kTurn));
  return door;
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
  TRY_ASSIGN(lock.gpu_, Door::Open(path));
  TRY_ASSIGN(lock.building_, Door::Open(path.string() + kBuilding));
  return lock;
}

Status GpuLock::Wait(const os::Fd& file, os::Lock lock, std::chrono::minutes most) const {
  const auto end = std::chrono::steady_clock::now() + most;
  for (bool reported = false;; reported = true) {
    const auto now = std::chrono::steady_clock::now();
    auto got = os::Acquire(file, lock, waiting_ ? std::min(end, now + report_every_) : end, stop_);
    if (got && reported) waiting_(false);
    if (got || got.error().code != ErrorCode::kTimeout) return got;
    if (now + report_every_ >= end || !waiting_) break;
    waiting_(true);
  }
  return Fail(ErrorCode::kTimeout,
              fmt::format("other cupel processes have locked the GPU for {} minutes", most.count()),
              "wait for them, or choose another GPU with --device gpu:N");
}

Status GpuLock::Acquire(Use use) {
  if (use == use_) return {};
  Release();
  if (!gpu_.file || use == Use::kNone) {
    use_ = use;
    return {};
  }
  const bool alone = use == Use::kAlone;
  Status got;
  if (alone) got = Wait(building_.turn, os::Lock::kShared, kQueueTimeout);
  if (got && alone) got = Wait(building_.file, os::Lock::kExclusive, kQueueTimeout);
  if (got) got = Wait(gpu_.turn, os::Lock::kExclusive, kLockTimeout);
  if (got) got = Wait(gpu_.file, alone ? os::Lock::kExclusive : os::Lock::kShared, kLockTimeout);
  os::Unlock(gpu_.turn);
  use_ = use;
  if (!got) Release();
  return got;
}

void GpuLock::Release() {
  const Use use = std::exchange(use_, Use::kNone);
  if (!gpu_.file || use == Use::kNone) return;
  os::Unlock(gpu_.file);
  if (use != Use::kAlone) return;
  os::Unlock(building_.file);
  os::Unlock(building_.turn);
}

Status GpuLock::BeginBuilding() {
  if (use_ == Use::kAlone) {
    return Fail(ErrorCode::kInternal, "a process that uses the GPU alone cannot build baselines");
  }
  if (!building_.file) return {};
  TRY(Wait(building_.turn, os::Lock::kExclusive, kQueueTimeout));
  Status got = Wait(building_.file, os::Lock::kShared, kQueueTimeout);
  os::Unlock(building_.turn);
  return got;
}

void GpuLock::EndBuilding() {
  if (building_.file) os::Unlock(building_.file);
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
