// Tested by exec/tensor_map_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/changed_maps.h"

namespace cupel::emu {

void ChangedMaps::Change(uint64_t map, uint64_t block, bool released) {
  const std::scoped_lock lock(mutex_);
  changes_[map] = {block, released};
  any_ = true;
}

void ChangedMaps::Release(uint64_t block) {
  if (!any_) return;
  const std::scoped_lock lock(mutex_);
  for (auto& [map, change] : changes_) change.released |= change.block == block;
}

void ChangedMaps::Acquire(uint64_t map) {
  if (!any_) return;
  const std::scoped_lock lock(mutex_);
  const auto found = changes_.find(map);
  if (found != changes_.end() && found->second.released) changes_.erase(found);
}

bool ChangedMaps::IsHidden(uint64_t map) const {
  if (!any_) return false;
  const std::scoped_lock lock(mutex_);
  return changes_.contains(map);
}

}  // namespace cupel::emu
