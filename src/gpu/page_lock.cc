// Tested by engine_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/page_lock.h"

#include <algorithm>

namespace cupel::gpu {
namespace {

constexpr uint64_t kWorthLocking = uint64_t{16} << 20;
constexpr uint64_t kPiece = uint64_t{64} << 20;

}  // namespace

PageLock::~PageLock() { Cover({}); }

uint64_t PageLock::WorthCovering(uint64_t needed) const {
  if (needed <= locked_.size()) return locked_.size();
  if (needed < kWorthLocking) return needed;
  const uint64_t enough = std::max(needed, locked_.size() + locked_.size() / 2);
  return (enough + kPiece - 1) / kPiece * kPiece;
}

void PageLock::Cover(std::span<std::byte> memory) {
  if (memory.size() == locked_.size()) return;
  if (!memory.empty() && memory.size() < kWorthLocking) return;
  const Driver& driver = device_.driver();
  // A copy must not span two locked ranges, so there is always only one.
  if (!locked_.empty()) driver.host_unregister(locked_.data());
  locked_ = {};
  if (memory.empty() || memory.size() >= refused_) return;
  if (driver.host_register(memory.data(), memory.size(), 0) == 0) {
    locked_ = memory;
  } else {
    refused_ = memory.size();
  }
}

}  // namespace cupel::gpu
