// SPDX-License-Identifier: Apache-2.0
#include "emu/core/store_tracker.h"

#include <algorithm>

#include "emu/core/launch_request.h"
#include "emu/core/memory.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"

namespace cupel::emu {

void StoreTracker::Note(const Warp& warp, const Op* op, uint32_t lanes) {
  const AccessShape shape = AccessShape::Unpack(op->aux);
  const auto* address = At<const uint64_t>(warp, op->src[0]);
  const GlobalMemory& memory = *warp.worker->launch->memory;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const uint64_t begin = address[__builtin_ctz(rest)] + static_cast<uint64_t>(op->imm);
    if (memory.IsInArena(begin)) Add(begin, begin + shape.bytes());
  }
}

void StoreTracker::Add(uint64_t begin, uint64_t end) {
  // Lanes and iterations mostly go upwards. Scattered ranges are joined from time to time.
  const size_t recent = std::min<size_t>(ranges_.size(), 8);
  for (size_t i = ranges_.size(); i > ranges_.size() - recent; --i) {
    WrittenRange& range = ranges_[i - 1];
    if (begin <= range.end && end >= range.begin) {
      range.begin = std::min(range.begin, begin);
      range.end = std::max(range.end, end);
      return;
    }
  }
  ranges_.push_back({begin, end});
  if (ranges_.size() > 2 * joined_ + (1 << 16)) {
    JoinRanges(&ranges_);
    joined_ = ranges_.size();
  }
}

void StoreTracker::AppendTo(std::vector<WrittenRange>* ranges) const {
  ranges->insert(ranges->end(), ranges_.begin(), ranges_.end());
}

void JoinRanges(std::vector<WrittenRange>* ranges) {
  std::sort(ranges->begin(), ranges->end(),
            [](const WrittenRange& a, const WrittenRange& b) { return a.begin < b.begin; });
  size_t kept = 0;
  for (const WrittenRange& range : *ranges) {
    if (kept > 0 && range.begin <= (*ranges)[kept - 1].end) {
      (*ranges)[kept - 1].end = std::max((*ranges)[kept - 1].end, range.end);
    } else {
      (*ranges)[kept++] = range;
    }
  }
  ranges->resize(kept);
}

}  // namespace cupel::emu
