// Page-locks memory that is shared with cupel, so that copies from it run at full bus speed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/device.h"

namespace cupel::gpu {

class PageLock {
 public:
  /// Borrows the device.
  explicit PageLock(const Device& device) : device_(device) {}
  PageLock(const PageLock&) = delete;
  PageLock& operator=(const PageLock&) = delete;
  ~PageLock();

  /// How many bytes of a file to map and Cover if `needed` bytes are in use. Returns more than
  /// `needed`, because locking again after growth costs as much as a copy. Returns `needed` itself
  /// if it is too small to be worth locking.
  uint64_t WorthCovering(uint64_t needed) const;
  /// Locks `memory`, which must begin at the same address in every call. No copy from it may be
  /// running. If memory cannot be locked, copies from it are slower.
  void Cover(std::span<std::byte> memory);

 private:
  const Device& device_;
  std::span<std::byte> locked_;
  uint64_t refused_ = UINT64_MAX;  // this many bytes could not be locked
};

}  // namespace cupel::gpu
