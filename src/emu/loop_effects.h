// What each micro-op of a kernel takes from registers and memory and what it leaves there, as far
// as one must know to say whether a loop can ever end (loop_path.h). What is not known counts as
// anything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "emu/code.h"
#include "emu/op.h"

namespace cupel::emu {

enum class Effect : uint8_t {
  kNothing,  // neither registers nor memory
  kCompute,  // registers from registers
  kTime,     // a register from the clock
  kDecide,   // where lanes go
  kGuard,    // whether they execute the next ops
  kRead,     // of memory
  kWrite,    // likewise
  kUpdate,   // an atomic operation
  kWait,     // asks whether a phase of an mbarrier is complete
  kMeet,     // waits at a barrier of the block
  kOther,
};

/// A register, or a part of one: bytes of the frame.
struct FramePart {
  int32_t offset = 0;
  int32_t bytes = 0;
};

struct OpEffect {
  Effect kind = Effect::kOther;
  bool is_strong = false;  // memory: volatile or atomic, as a poll has to be
  bool is_simple = false;  // registers: as counts of tries and times are computed, no real work
  uint8_t reads = 0, writes = 0;
  std::array<FramePart, 5> read;     // memory: the address first
  std::array<FramePart, 4> written;  // completely, for the lanes that execute
};

class LoopEffects {
 public:
  /// `originals`: the handlers that the ops had before they were instrumented; null when they were
  /// not.
  LoopEffects(const Code& code, const std::vector<Handler>* originals);
  const OpEffect& of(size_t op) const { return effects_[op]; }

 private:
  std::vector<OpEffect> effects_;
};

}  // namespace cupel::emu
