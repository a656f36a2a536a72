// A variant of a kernel's code that follows the values of racing reads (race_trial.h) through
// registers, lane by lane. A value counts as used if it
// - reaches memory, an address, an atomic, a barrier, a branch or a guard, or an instruction whose
//   effects are not known;
// - is still needed on another path, and memory decides which path is taken: another input might
//   use it.
// Registers that are computed from a value are followed like it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "emu/check/value_flow.h"
#include "emu/core/code.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

struct BlockState;
struct Kernel;
class RaceTrial;

/// The variant, and what its thunks need to know about each op.
struct FollowCode {
  struct Side {
    Handler full = nullptr, masked = nullptr;  // of the kernel's own code
    const InstrFlow* flow = nullptr;
    bool is_lanewise = false;
    bool is_first = false;  // the first op of its instruction that computes
    bool is_plain_load = false;
  };
  ValueFlow flow;
  std::vector<Side> sides;  // by op
  std::unique_ptr<Code> variant;

  explicit FollowCode(const KernelText& text) : flow(text) {}
};

/// Null if the kernel cannot be followed: it calls functions out of line.
std::unique_ptr<FollowCode> MakeFollowCode(const Kernel& kernel);

/// The followed values of a warp.
struct WarpFollow {
  const FollowCode* code = nullptr;
  RaceTrial* trial = nullptr;
  std::vector<uint32_t> lanes;  // by value: the lanes in which it comes from a racing read
  std::vector<int> followed;    // values with such lanes, perhaps also others

  void Clear();
};

}  // namespace cupel::emu
