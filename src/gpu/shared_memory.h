// Memory that cupel and its GPU worker share: tensors go through it, so that frames stay small.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "os/fd.h"

namespace cupel::gpu {

/// Mapped once, far beyond the file's end, so that what lies in it never moves.
inline constexpr uint64_t kMostShared = uint64_t{1} << 40;

/// Move-only. Both sides map the same file.
class SharedMemory {
 public:
  static Result<SharedMemory> Create();
  /// The other side's descriptor, which this object owns from now on.
  explicit SharedMemory(int fd) : fd_(fd) {}
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  int fd() const { return fd_.get(); }
  /// The first `bytes` bytes, of which the file is made to have so many. They stay where they are.
  Result<std::span<std::byte>> Map(uint64_t bytes);

 private:
  os::Fd fd_;
  std::byte* data_ = nullptr;
};

}  // namespace cupel::gpu
