// Bulk copies between global and shared memory (cp.async.bulk): what one of them moves, and how it
// is done. The asynchronous proxy does them some time after the instruction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "emu/core/block_state.h"
#include "emu/core/bulk.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

/// Contiguous bytes of a bulk copy.
struct CopyRun {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;  // null: BulkCopy::fill
  uint32_t bytes = 0;
};

/// A bulk copy that a single thread issued.
struct BulkCopy {
  const Op* op = nullptr;
  Warp* warp = nullptr;  // of that thread
  int lane = 0;
  uint32_t clock = 0;            // of the warp, when it was issued
  uint32_t group = 0;            // index of the thread's bulk group, if the copy belongs to one
  BlockState* target = nullptr;  // whose shared memory is the destination; null: global memory
  BlockState* source = nullptr;  // whose shared memory is the source; null: global memory
  Reduction reduction = Reduction::kNone;
  ReductionType type = ReductionType::kU32;
  uint64_t fill = 0;            // the bits that fill a run without a source, repeated
  bool rounds_to_tf32 = false;  // its elements are float32
  std::vector<CopyRun> runs;
  size_t next = 0;  // index of the first run that is not done
  /// What the warp had seen at the issue: a source in shared memory must not change after that.
  std::array<uint32_t, kLanes> seen{};

  bool IsDone() const { return next == runs.size(); }
};

/// The bytes that the copy moves.
uint64_t BytesOf(const BulkCopy& copy);
/// Before the copy is issued: checks that its reads and writes of memory are ordered after those of
/// other threads. Returns false after an error.
bool CheckIssue(Warp& warp, BulkCopy& copy);
/// Marks the destination as undefined until the copy is done.
void MakePending(const BulkCopy& copy);
/// Does the next runs of the copy, up to `most` bytes, and returns how many it did. `waiter` is the
/// warp that waits for it, and gets the findings.
uint64_t Perform(Warp& waiter, BulkCopy& copy, uint64_t most = UINT64_MAX);

}  // namespace cupel::emu
