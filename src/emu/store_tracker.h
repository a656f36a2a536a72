// Which global memory the blocks of a launch wrote, for launches of which some blocks run: nothing
// else may be held against the truth. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "emu/launch.h"
#include "emu/op.h"

namespace cupel::emu {

/// One worker's. Accesses that touch the last one become one range.
class StoreTracker {
 public:
  /// `lanes` are about to execute store `op`.
  void Note(const Warp& warp, const Op* op, uint32_t lanes);
  void AppendTo(std::vector<WrittenRange>* ranges) const;

 private:
  void Add(uint64_t begin, uint64_t end);
  std::vector<WrittenRange> ranges_;
  size_t joined_ = 0;  // ranges when they were last joined
};

/// Sorts, and makes one of what touches.
void JoinRanges(std::vector<WrittenRange>* ranges);

}  // namespace cupel::emu
