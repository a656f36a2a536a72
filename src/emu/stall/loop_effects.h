// What each micro-op of a kernel reads and writes, in the detail needed to decide whether a loop
// can ever end (loop_path.h). An unknown op is assumed to do anything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "emu/core/code.h"
#include "emu/core/op.h"
#include "emu/isa/instructions.h"

namespace cupel::emu {

/// A register, or a part of one: bytes of the frame.
struct FramePart {
  int32_t offset = 0;
  int32_t bytes = 0;
};

struct OpEffect {
  Effect kind = Effect::kOther;
  bool is_strong = false;  // memory: volatile or atomic, which polling requires
  bool is_simple = false;  // registers: typical of retry counters and timeouts, not of real work
  uint8_t reads = 0, writes = 0;
  std::array<FramePart, 5> read;     // memory: the address first
  std::array<FramePart, 4> written;  // for all lanes that execute the op
};

class LoopEffects {
 public:
  explicit LoopEffects(const Code& code);
  const OpEffect& of(size_t op) const { return effects_[op]; }

 private:
  std::vector<OpEffect> effects_;
};

}  // namespace cupel::emu
