// Runs one kernel launch on the CPU: every warp of every block, all memory accesses checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "emu/kernel.h"
#include "emu/memory.h"
#include "engine/engine.h"
#include "plan/plan.h"

namespace cupel::emu {

class ShadowRun;
class ThreadPool;

struct LaunchRequest {
  const Kernel* kernel = nullptr;
  plan::Dim3 grid, block;
  plan::Dim3 cluster;
  uint32_t dynamic_shared = 0;
  bool cooperative = false;
  std::span<const std::byte>
      parameters;  // the .param block, pointers relocated to device addresses
  /// Numbers of the blocks to run, ascending; empty: all. Stores of such a launch are tracked.
  std::span<const uint64_t> only;
  ShadowRun* shadows = nullptr;  // not null: the launch carries shadow values
  /// Blocks of this launch that the device holds at a time; 0: not known. Others start when one of
  /// them ends.
  uint64_t resident_blocks = 0;
  /// Of the L1, a block's share (near_cache.h).
  uint64_t near_bytes = uint64_t{24} << 10;
  /// Blocks may wait for each other, though the kernel does not look like it.
  bool in_order = false;
  /// After how many warp instructions blocks that have not ended are looked at (stall.h), first and
  /// from then on; 0: the usual.
  int64_t look_after = 0;
  /// Of the device: multiprocessors, and how many warps one holds.
  uint32_t processors = 1, processor_warps = 64;
};

/// Device addresses [begin, end) that were written.
struct WrittenRange {
  uint64_t begin = 0, end = 0;
};

struct LaunchOutcome {
  /// A block that ran by itself waited without end: perhaps for another one. Only with
  /// LaunchRequest::in_order can that be told.
  bool wants_order = false;
  bool completed = false;   // false: an error finding or `unsupported` ended the launch early
  std::string unsupported;  // "wgmma.mma_async… at kernel.cu:31"
  std::vector<engine::Finding> findings;
  std::vector<std::string> printed;  // by printf, a string a call; blocks in order
  engine::LaunchCounters
      counters;  // kernel, grid, block and all counts; not occupancy, estimated_us
  std::vector<uint32_t> block_work;   // warp instructions by block run; empty without counters
  std::vector<WrittenRange> written;  // with LaunchRequest::only: sorted, apart from each other
};

/// Executes the launch. Findings are data; an Error is ours (kCancelled when options.cancelled said
/// so). Deterministic for a given request, memory contents and options, whatever the pool's size.
Result<LaunchOutcome> RunLaunch(const LaunchRequest& request, GlobalMemory& memory,
                                const engine::RunOptions& options, ThreadPool& pool);

}  // namespace cupel::emu
