// Memory that cupel and its GPU worker share. It carries the tensors, so that frames stay small.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "os/fd.h"

namespace cupel::gpu {

/// The size of the mapping. It is mapped once, far beyond the file's end, so that its content never
/// moves.
inline constexpr uint64_t kMostShared = uint64_t{1} << 40;

/// Move-only. Both sides map the same file.
class SharedMemory {
 public:
  static Result<SharedMemory> Create();
  /// Takes ownership of the other side's descriptor.
  explicit SharedMemory(int fd) : fd_(fd) {}
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  int fd() const { return fd_.get(); }
  /// The first `bytes` bytes. Grows the file if needed. Their address never changes.
  Result<std::span<std::byte>> Map(uint64_t bytes);

 private:
  os::Fd fd_;
  std::byte* data_ = nullptr;
};

}  // namespace cupel::gpu
