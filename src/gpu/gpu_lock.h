// The lock of a GPU between cupel processes: either any number of them check kernels, or one
// measures time alone. A waiting process holds the turn file, so that later processes that only
// share the GPU cannot overtake one that wants to measure.
//
// PyTorch may hold the GPU for minutes while it builds a compiled baseline, mostly on the CPU. Such
// a process also shares a second lock of the same kind, and one that wants to measure waits for
// that one first, while others may still use the GPU. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "os/fd.h"
#include "os/file_lock.h"

namespace cupel::gpu {

/// The lock file of a GPU in `folder`: locked shared to compute, exclusive to measure. With
/// ".building": shared to build a baseline, exclusive to measure. Both have a turn file, ".turn".
/// The PyTorch processes follow the same rules (src/oracle/py/gpu_lock.py).
std::filesystem::path LockFile(const std::filesystem::path& folder, const std::string& uuid);

/// Not thread-safe. Each engine has its own.
class GpuLock {
 public:
  /// Opens LockFile(folder, uuid). With an empty folder nothing is locked. `stop` ends waits.
  /// `waiting` is called every `report_every` of a wait with true, and with false when it ends.
  static Result<GpuLock> Open(const std::filesystem::path& folder, const std::string& uuid,
                              std::stop_token stop = {},
                              std::function<void(bool waits)> waiting = {},
                              std::chrono::milliseconds report_every = std::chrono::seconds(3));

  enum class Use { kNone, kShared, kAlone };
  /// Waits until this use of the GPU is possible. kTimeout after ten minutes; kCancelled.
  Status Acquire(Use use);
  void Release();
  Use use() const { return use_; }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Door {
    static Result<Door> Open(const std::filesystem::path& path);
    os::Fd file, turn;
  };

  /// Waits for a door's turn, then for its lock.
  Status Enter(const Door& door, os::Lock lock, TimePoint end) const;
  Status Wait(const os::Fd& file, os::Lock lock, TimePoint end) const;

  Door gpu_, building_;
  std::stop_token stop_;
  std::function<void(bool waits)> waiting_;
  std::chrono::milliseconds report_every_{0};
  Use use_ = Use::kNone;
};

/// Holds a lock for a scope. Does nothing if the lock is already held (shared or alone).
class GpuHold {
 public:
  static Result<GpuHold> Shared(GpuLock& lock);
  GpuHold(GpuHold&& other) noexcept;
  GpuHold& operator=(GpuHold&&) = delete;
  ~GpuHold();

 private:
  explicit GpuHold(GpuLock* lock) : lock_(lock) {}
  GpuLock* lock_;
};

}  // namespace cupel::gpu
