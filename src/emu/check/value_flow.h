// Which registers each instruction of a kernel reads and writes, and what becomes of their values.
// It is used to follow the value of a read through a run: the value is used if it reaches memory,
// an address, a branch, or an instruction that is not known to do nothing but compute registers.
//
// A run takes one path only. To know what other paths do with a value, the flow also says which
// decisions may depend on the contents of memory, and which values are live when a block ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emu/core/kernel_text.h"
#include "emu/isa/basic_blocks.h"

namespace cupel::emu {

/// What an instruction does with the values that it reads.
enum class ValueRule : uint8_t {
  kUses,    // its effects depend on them: everything that is not listed here
  kByLane,  // each lane computes its results from its own values
  kAcross,  // the results depend on the values of all lanes
  kLoads,   // they are addresses; the results are from memory
};

struct InstrFlow {
  ValueRule rule = ValueRule::kUses;
  bool is_jump = false;       // it may end a block: a branch, or an exit
  bool guard_varies = false;  // the guard may depend on the contents of memory
  bool index_varies = false;  // the same for the index of a branch by index
  int guard = -1;             // a value; -1: none
  std::vector<int> reads;     // values, without the guard
  std::vector<int> writes;
  uint32_t block = 0;  // the basic block that it belongs to
};

class ValueFlow {
 public:
  /// `text` must have no calls out of line.
  explicit ValueFlow(const KernelText& text);

  const InstrFlow& of(size_t instr) const { return instrs_[instr]; }
  size_t instructions() const { return instrs_.size(); }
  size_t values() const { return values_; }
  /// True if some path from the end of a block reads the value before it is written.
  bool IsLiveAfter(uint32_t block, int value) const {
    return live_out_.empty() || live_out_[block][static_cast<size_t>(value)];
  }

 private:
  void FindLive(const KernelText& text, const std::vector<BasicBlock>& blocks);
  void FindVarying(const KernelText& text, const std::vector<BasicBlock>& blocks);

  std::vector<InstrFlow> instrs_;
  size_t values_ = 0;
  std::vector<std::vector<bool>> live_out_;  // by block; empty: everything may be live
};

}  // namespace cupel::emu
