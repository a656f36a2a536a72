// A kernel launch, and what it did.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emu/core/kernel.h"
#include "engine/engine.h"
#include "plan/plan.h"

namespace cupel::emu {

class MutedBarrier;
class RaceTrial;
class ShadowRun;

struct LaunchRequest {
  const Kernel* kernel = nullptr;
  int image = 0;  // as plan::Launch::image; its variables are the kernel's
  plan::Dim3 grid, block;
  plan::Dim3 cluster;          // of the launch; a kernel that requires a cluster has its own
  bool lone_clusters = false;  // as plan::Launch::lone_clusters
  uint32_t dynamic_shared = 0;
  bool cooperative = false;
  /// May start before the launch in front of it has ended: must wait before it uses its results.
  bool early = false;
  std::span<const std::byte>
      parameters;  // the .param block, pointers relocated to device addresses
  /// The numbers of the blocks to run, ascending; if empty, all blocks run. If not empty, stores
  /// are tracked.
  std::span<const uint64_t> only;
  ShadowRun* shadows = nullptr;  // if not null, the launch computes shadow values
  /// Registers of each thread at the launch, if setmaxnreg has an effect; 0: none, or not known.
  uint32_t registers = 0;
  /// How many blocks of this launch the device holds at a time; 0: not known. The next block starts
  /// when one of them ends.
  uint64_t resident_blocks = 0;
  /// A block's share of the L1 (near_cache.h).
  uint64_t near_bytes = uint64_t{24} << 10;
  /// Blocks may wait for each other, even if decoding did not find that they may.
  bool in_order = false;
  /// Warp instructions until the first stall check (stall.h), and between checks; 0: the default.
  int64_t stall_check_interval = 0;
  /// The device's multiprocessors, and how many warps one of them holds.
  uint32_t processors = 1, processor_warps = 64;
  /// If not null, races between reads and writes do not end the launch. One host thread runs it.
  RaceTrial* trial = nullptr;
  const MutedBarrier* muted = nullptr;
};

/// Device addresses [begin, end) that were written.
struct WrittenRange {
  uint64_t begin = 0, end = 0;
};

struct LaunchOutcome {
  /// A block that ran alone waits forever, perhaps for another block. Run the launch again with
  /// LaunchRequest::in_order to find out.
  bool wants_order = false;
  /// A race between a read and a write ended the launch. A RaceTrial finds out if it matters.
  bool read_race = false;
  bool completed = false;   // false: an error finding or `unsupported` ended the launch early
  std::string unsupported;  // "wgmma.mma_async… at kernel.cu:31"
  std::vector<records::Finding> findings;
  std::vector<std::string> printed;  // one string per printf call; blocks in order
  records::LaunchCounters
      counters;  // kernel, grid, block and all counts; not occupancy, estimated_us
  std::vector<uint32_t> block_work;   // warp instructions by block run; empty without counters
  std::vector<WrittenRange> written;  // with LaunchRequest::only: sorted, not adjacent
};

}  // namespace cupel::emu
