// Kernels that never end. Now and then, by the count of instructions and never by the clock, blocks
// that have run for long are looked at closely. When all of them wait for memory to change and none
// of them changes any, nothing ever will: that is proven, and told by the line that waits. Loops
// that count their tries or read the clock may give up: they get their time, but not the whole
// budget, while nothing changes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "emu/block.h"
#include "emu/close_look.h"

namespace cupel::emu {

/// What blocks that are on their way together will come to.
enum class Outlook : uint8_t {
  kOpen,
  kWaiting,  // all wait; some may give up
  kGaveUp,   // those that may have not, for too long
  kNever,    // all wait, for ever
  kStopped,  // an error was found
};

class StallWatch {
 public:
  /// Warp instructions until a block that depends on no other is looked at; and until one is that
  /// may have to wait for blocks that have not begun.
  static constexpr int64_t kFirstLook = 2'000'000;
  static constexpr int64_t kEarlyLook = 200'000;

  /// `may_wait`: for blocks that have not begun.
  StallWatch(const LaunchState& launch, bool may_wait);
  int64_t first_look() const { return first_; }
  /// Other blocks begin.
  void Restart();
  /// Whether a look is due.
  bool IsDue(int64_t now) const { return now >= next_; }
  /// `now`: warp instructions that the blocks, or the launch, have executed. They are all that run.
  Outlook Look(std::span<BlockState* const> blocks, int64_t now);
  /// After kNever or kGaveUp: an error. `not_started` blocks have no room on the device.
  void Report(std::span<BlockState* const> blocks, uint64_t not_started, Outlook outlook) const;

 private:
  Outlook Sum(std::span<BlockState* const> blocks, int64_t now, bool polls, uint64_t fingerprint);

  const LaunchState* launch_;
  std::unique_ptr<LoopEffects> effects_;  // when first needed
  int64_t first_, interval_;
  int64_t next_;
  size_t mover_ = 0;           // the block that moved last time
  int64_t since_ = -1;         // when all began to wait; -1: they do not
  uint64_t fingerprint_ = 0;   // of what they wait for, and of all memory
  std::vector<Sight> sights_;  // by block
};

/// stall_report.cc: an error about the loops that were seen.
void ReportStall(std::span<BlockState* const> blocks, std::span<const Sight> sights,
                 uint64_t not_started, int64_t patience);

}  // namespace cupel::emu
