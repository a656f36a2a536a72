// One GPU, several cupels: any number check kernels at a time, or one measures time alone. Whoever
// waits holds the turn, so that those who come later and only share cannot keep out who measures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "os/fd.h"

namespace cupel::gpu {

/// The file of a GPU's lock in `folder`: shared to compute, exclusive to measure. PyTorch's
/// processes take it by the same rules (src/oracle/gpu_lock.py).
std::filesystem::path LockFile(const std::filesystem::path& folder, const std::string& uuid);

/// Not thread-safe; one an engine.
class GpuLock {
 public:
  /// Of LockFile(folder, uuid); an empty folder locks nothing.
  static Result<GpuLock> Open(const std::filesystem::path& folder, const std::string& uuid);

  enum class Use { kNone, kShared, kAlone };
  /// Waits until the GPU may be used so. kTimeout after ten minutes, kCancelled.
  Status Acquire(Use use);
  void Release();
  Use use() const { return use_; }

 private:
  os::Fd file_, turn_;
  Use use_ = Use::kNone;
};

/// Holds a lock for a scope. Within a scope that has the GPU alone, sharing it changes nothing.
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
