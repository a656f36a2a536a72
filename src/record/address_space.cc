// SPDX-License-Identifier: Apache-2.0
#include "record/address_space.h"

#include <iterator>
#include <utility>

namespace cupel::record {

void AddressSpace::BeginCall(uint64_t seed) {
  random_ = Random(seed);
  arguments_.clear();
  for (auto it = by_base_.begin(); it != by_base_.end();) {
    const Allocation& allocation = it->second;
    const bool forget = !allocation.live || allocation.origin == Origin::kArgument;
    if (forget) {
      if (allocation.live) live_bytes_ -= allocation.bytes;
      base_of_id_.erase(allocation.id);
      it = by_base_.erase(it);
    } else {
      ++it;
    }
  }
}

bool AddressSpace::Vacant(uint64_t base, uint64_t bytes) const {
  const auto after = by_base_.lower_bound(base);
  if (after != by_base_.end() && after->first < base + bytes + kGuardBytes) return false;
  if (after == by_base_.begin()) return true;
  const Allocation& before = std::prev(after)->second;
  return before.base + before.bytes + kGuardBytes <= base;
}

Allocation* AddressSpace::Allocate(uint64_t bytes, Origin origin) {
  constexpr uint64_t kLargest = kRangeBytes / 8;
  constexpr int kAttempts = 64;
  if (bytes > kLargest) return nullptr;
  const uint64_t slots = (kRangeBytes - bytes - 2 * kGuardBytes) / kAlignment;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // The range begins at a page boundary, so every slot is aligned.
    const uint64_t base = kRange + kGuardBytes + random_.Below(slots) * kAlignment;
    if (!Vacant(base, bytes)) continue;
    Allocation allocation;
    allocation.base = base;
    allocation.bytes = bytes;
    allocation.id = next_id_++;
    allocation.origin = origin;
    live_bytes_ += bytes;
    base_of_id_[allocation.id] = base;
    if (origin == Origin::kArgument) arguments_.push_back(allocation.id);
    return &(by_base_[base] = std::move(allocation));
  }
  return nullptr;
}

bool AddressSpace::Free(uint64_t base, Origin origin) {
  const auto it = by_base_.find(base);
  if (it == by_base_.end() || !it->second.live || it->second.origin != origin) return false;
  it->second.live = false;
  live_bytes_ -= it->second.bytes;
  return true;
}

std::optional<Hit> AddressSpace::Find(uint64_t address) const {
  const auto after = by_base_.upper_bound(address);
  if (after != by_base_.begin()) {
    const Allocation& before = std::prev(after)->second;
    if (address - before.base < before.bytes + kGuardBytes / 2) {
      return Hit{&before, static_cast<int64_t>(address - before.base)};
    }
  }
  if (after != by_base_.end() && after->first - address < kGuardBytes / 2) {
    return Hit{&after->second, -static_cast<int64_t>(after->first - address)};
  }
  return std::nullopt;
}

const Allocation* AddressSpace::ById(int id) const {
  const auto base = base_of_id_.find(id);
  return base == base_of_id_.end() ? nullptr : &by_base_.at(base->second);
}

}  // namespace cupel::record
