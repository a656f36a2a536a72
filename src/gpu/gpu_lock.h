// The lock of a GPU between cupel processes: either any number of them check kernels, or one
// measures time alone. A waiting process holds the turn file, so that later processes that only
// share the GPU cannot overtake one that wants to measure.
//
// Before it measures, a process builds baselines, which may take minutes, mostly on the CPU. All
// build at the same time; then all that are ready measure, one after the other. Builders share a
// second lock. A process that measures needs both alone, and waits for the second one first: others
// may still use the GPU then. No build begins while a process measures, or waits to do so.
// SPDX-License-Identifier: Apache-2.0
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

/// The lock file of a GPU in `folder`: locked shared to compute, exclusive to measure. The PyTorch
/// processes follow the same rules (src/oracle/py/gpu_lock.py).
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
  /// Waits until this use of the GPU is possible. kTimeout after ten minutes, for kAlone after an
  /// hour of waiting for those that build and measure before; kCancelled.
  Status Acquire(Use use);
  void Release();

  /// Waits until baselines may be built. The GPU itself is not locked, and this process must not
  /// ask to use it alone before EndBuilding(). kTimeout after an hour; kCancelled.
  Status BeginBuilding();
  void EndBuilding();

  Use use() const { return use_; }

 private:
  struct Door {
    static Result<Door> Open(const std::filesystem::path& path);
    os::Fd file, turn;
  };

  Status Wait(const os::Fd& file, os::Lock lock, std::chrono::minutes most) const;

  /// Of gpu_, the turn is held only while a process waits. Of building_, those that measure share
  /// the turn until they have measured, so that builders wait for all of them.
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
