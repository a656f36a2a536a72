// Page-locks memory that is shared with cupel, so that copies from it run at the bus's speed.
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

  /// How many bytes of a file to map and Cover when `needed` are in use: some more, since locking
  /// anew what has grown costs as much as a copy. `needed` itself where locking does not pay.
  uint64_t WorthCovering(uint64_t needed) const;
  /// `memory` begins where it began before; no copy from it may be under way. What cannot be locked
  /// is copied more slowly.
  void Cover(std::span<std::byte> memory);

 private:
  const Device& device_;
  std::span<std::byte> locked_;
  uint64_t refused_ = UINT64_MAX;  // so many bytes could not be locked
};

}  // namespace cupel::gpu
