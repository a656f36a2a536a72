// The global memory that the blocks of a launch wrote, for launches that run only some blocks. Only
// this memory may be compared with the expected outputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "emu/core/launch_request.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

/// The writes of one worker. An access that touches the previous range extends it.
class StoreTracker {
 public:
  /// Records that `lanes` are about to execute store `op`.
  void Note(const Warp& warp, const Op* op, uint32_t lanes);
  void AppendTo(std::vector<WrittenRange>* ranges) const;

 private:
  void Add(uint64_t begin, uint64_t end);
  std::vector<WrittenRange> ranges_;
  size_t joined_ = 0;  // number of ranges after the last join
};

/// Sorts ranges and joins those that touch.
void JoinRanges(std::vector<WrittenRange>* ranges);

}  // namespace cupel::emu
