// The part of a launch that one host thread runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "emu/core/launch_state.h"
#include "emu/core/near_cache.h"
#include "emu/core/op_profile.h"
#include "emu/core/store_tracker.h"
#include "emu/core/warp.h"
#include "engine/engine.h"

namespace cupel::emu {

/// A finding and the block that caused it.
struct SeenFinding {
  uint64_t block = 0;
  uint32_t source = 0;
  records::Finding finding;
};

/// A read of memory that nothing has written so far. If a thread writes that memory later, this is
/// reported as a race; otherwise SettleSuspicion reports it when the block ends.
struct Suspicion {
  std::optional<records::Finding> finding;
  std::string reads;          // "Thread 3 reads byte 12 of shared memory"
  bool is_unwritten = false;  // false: a copy to it is in flight
  uint32_t source = 0;
  uint64_t place = 0;  // offset in shared memory, or device address
};

/// The text that one thread printed in one printf call.
struct PrintedText {
  uint64_t block = 0;
  std::string text;
};

inline constexpr int64_t kSlice = 100'000;  // warp instructions

/// The part of a launch that one host thread runs.
struct Worker {
  LaunchState* launch = nullptr;
  bool is_main = false;  // may call options.cancelled
  std::vector<Hint> hints;
  std::vector<SeenFinding> findings;
  std::vector<PrintedText> printed;
  size_t printed_bytes = 0;
  records::LaunchCounters counters;  // exact, of all blocks
  records::LaunchCounters sampled;   // of counted blocks only
  std::unique_ptr<Profile> profile;  // of counted blocks, by op; null without counters
  NearCache near;                    // of counted blocks
  uint64_t blocks_counted = 0;
  StoreTracker tracker;  // used if only some blocks of the launch run
  int64_t budget = 0;    // warp instructions until the next report of its work
  int64_t granted = 0;   // what `budget` was after the last report
  bool out_of_budget = false;
  bool waited = false;      // LaunchOutcome::wants_order
  std::string unsupported;  // why a warp cannot continue; it stopped as after an error
  int64_t slice = kSlice;   // length of a warp's turn with the usual schedule
  bool yields = false;      // the block's turn should end
  /// In other orders of blocks that may wait for each other: decides whether a turn ends after a
  /// load that sees other blocks' stores, so that others store before what follows it.
  std::optional<Random> interruptions;
  Suspicion suspicion;
  bool read_race = false;  // LaunchOutcome::read_race
};

}  // namespace cupel::emu
