// The state of a warp that executes micro-ops (op.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "emu/core/op.h"

namespace cupel::emu {

struct BlockState;
struct QuickRace;
struct Worker;
struct WarpShadow;

/// Why a warp stopped running.
enum class Stop : uint8_t {
  kRunning,   // it has not stopped
  kContinue,  // pc or active changed: continue
  kSwitch,    // the current group blocked or ended: another group may run
  kSlice,     // its time slice is over
  kFault,     // an error finding was recorded
};

enum class GroupState : uint8_t { kRunnable, kBarrier, kSync };

/// Lanes of a warp that are at the same program counter.
struct Group {
  const Op* pc = nullptr;
  uint32_t mask = 0;
  GroupState state = GroupState::kRunnable;
  uint8_t barrier = 0;     // kBarrier: which
  bool forced = false;     // kSync: continue without the lanes that did not arrive
  uint32_t sync_mask = 0;  // kSync: lanes named by the instruction
};

/// The memory that an instruction accessed last. The next access is usually to the same memory.
struct Hint {
  uint64_t begin = 1, end = 0;  // device addresses
  uint64_t* stamps = nullptr;   // of writes, from `begin`, if watched (global_race.h)
};

struct Warp {
  std::byte* frame = nullptr;
  uint32_t active = 0;
  Stop stop = Stop::kRunning;
  bool counting = false;  // the memory accesses of this block are counted
  bool checking = false;  // RunOptions::full_checks
  bool watching = false;  // full checks of global memory too
  bool sticky = false;    // runs a group out of turn, so that spin loops progress
  const Op* pc = nullptr;
  const Op* min_other = nullptr;  // lowest pc among runnable others; null when there is none
  int64_t slice = 0;              // instructions left before the next warp's turn
  uint64_t warp_instructions = 0, lane_instructions = 0, flops = 0;
  // Less often used.
  uint32_t live = 0;   // lanes that have not exited
  uint32_t index = 0;  // in its block
  uint32_t spin = 0;   // backward branches taken while other groups waited
  int others = 0;
  bool forced = false;  // the instruction at pc runs without the missing lanes
  /// Lanes that have arrived at the cluster's barrier, in its current phase or in one that is over,
  /// and have not waited since.
  uint32_t cluster_arrived = 0, cluster_passed = 0;
  std::byte* shared = nullptr;  // of the block; host address
  uint64_t shared_bytes = 0;
  std::byte* local = nullptr;        // of the warp: word w of lane l is at (w * 32 + l) * 4
  uint64_t local_bytes = 0;          // of one lane
  const std::byte* param = nullptr;  // the launch's parameter block
  uint64_t param_bytes = 0;
  uint64_t bias = 0;  // host address = device address + bias
  Hint* hints = nullptr;
  const QuickRace* race = nullptr;  // full checks: data of the fast path (quick_race.h)
  BlockState* block = nullptr;
  Worker* worker = nullptr;
  const Op* code = nullptr;
  const int32_t* lists = nullptr;  // Code::lists
  WarpShadow* shadow = nullptr;    // shadow runs only
  std::array<Group, kLanes> other;
};

template <class T>
inline T* At(const Warp& warp, int32_t offset) {
  return reinterpret_cast<T*>(warp.frame + offset);
}
inline uint32_t& MaskAt(const Warp& warp, int32_t offset) { return *At<uint32_t>(warp, offset); }

/// Called by a terminator: `lanes` lanes executed its basic block.
inline void AccountBlock(Warp& warp, const Op* op, uint64_t lanes) {
  warp.slice -= op->count;
  warp.warp_instructions += op->count;
  warp.lane_instructions += lanes * op->count;
  warp.flops += lanes * op->flops;
}

}  // namespace cupel::emu
