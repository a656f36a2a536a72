// Detects kernels that never end. From time to time, blocks that have run for long are checked. The
// number of instructions decides when, never the clock. If all blocks wait for memory to change and
// none of them changes any, they wait forever. That is proven, and reported at the line that waits.
// Loops that count their tries or read the clock may give up. While nothing changes, they get a
// limited time, but not the whole budget.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "emu/core/block_state.h"
#include "emu/core/launch_state.h"
#include "emu/stall/loop_scan.h"

namespace cupel::emu {

/// The prospects of blocks that run together.
enum class StallOutcome : uint8_t {
  kOpen,
  kWaiting,  // all wait; some loops may give up
  kGaveUp,   // the loops that may give up have taken too long
  kNever,    // all wait forever
  kStopped,  // an error was found
};

class StallWatch {
 public:
  /// Warp instructions before the first check: of a block that does not depend on others, and of
  /// one that may have to wait for blocks that have not started.
  static constexpr int64_t kFirstCheck = 2'000'000;
  static constexpr int64_t kEarlyCheck = 200'000;

  /// `may_wait`: blocks may wait for blocks that have not started.
  StallWatch(const LaunchState& launch, bool may_wait);
  int64_t first_check() const { return first_; }
  /// Call when other blocks start.
  void Restart();
  /// Whether a check is due.
  bool IsDue(int64_t now) const { return now >= next_; }
  /// `now`: warp instructions that the blocks, or the launch, have executed. `blocks` are all
  /// running blocks.
  StallOutcome Check(std::span<BlockState* const> blocks, int64_t now);
  /// Call after kNever or kGaveUp: reports an error. `not_started` blocks do not fit on the device.
  void Report(std::span<BlockState* const> blocks, uint64_t not_started,
              StallOutcome outcome) const;

 private:
  StallOutcome Sum(std::span<BlockState* const> blocks, int64_t now, bool polls,
                   uint64_t fingerprint);

  const LaunchState* launch_;
  std::unique_ptr<LoopEffects> effects_;  // created when first needed
  int64_t first_, interval_;
  int64_t next_;
  size_t last_moved_ = 0;        // the block that made progress last time
  int64_t since_ = -1;           // when all began to wait; -1: they do not
  uint64_t fingerprint_ = 0;     // of what the blocks wait for, and of all memory
  std::vector<LoopScan> scans_;  // by block
};

/// stall_report.cc: reports an error about the loops that were found.
void ReportStall(std::span<BlockState* const> blocks, std::span<const LoopScan> scans,
                 uint64_t not_started, int64_t patience);

}  // namespace cupel::emu
