// Tested by chains_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/decode/chains.h"

#include <algorithm>
#include <cmath>

#include "emu/decode/decoder.h"
#include "emu/isa/basic_blocks.h"
#include "emu/isa/instruction_class.h"
#include "emu/isa/instructions.h"
#include "emu/isa/register_use.h"

namespace cupel::emu {
namespace {

using ptx::Instr;
using ptx::Modifier;
using records::InstructionClass;

// Clocks from an instruction to one that needs its result, measured on an H200 with
// bench/calibrate. Local memory and constants count as loads that hit the L1.
constexpr double kArithmetic = 4.5;
constexpr double kDouble = 8.8;
constexpr double kSpecial = 17;
constexpr double kConversion = 12;
constexpr double kWarp = 24;
constexpr double kMatch = 78;
constexpr double kIntegerDivision = 138;
constexpr double kFloatDivision = 45;
constexpr double kDoubleDivision = 200;
constexpr double kTensor = 33;
constexpr double kShared = 34;
constexpr double kLocal = 46;
constexpr double kGlobal = 400;  // between the latencies of the L2 and of DRAM

double LatencyOf(const Instr& instr, InstructionClass kind) {
  if (IsFree(instr)) return 0;
  const Latency latency = RowOf(instr.op).latency;
  if (latency == Latency::kMatch) return kMatch;
  switch (kind) {
    case InstructionClass::kFp64:
      return latency != Latency::kClass ? kDoubleDivision : kDouble;
    case InstructionClass::kSpecial:
      return instr.modifiers.HasAny({Modifier::kRn, Modifier::kRz}) ? kFloatDivision : kSpecial;
    case InstructionClass::kInteger:
      return latency == Latency::kDivision ? kIntegerDivision : kArithmetic;
    case InstructionClass::kConversion:
      return kConversion;
    case InstructionClass::kWarp:
      return kWarp;
    case InstructionClass::kTensor:
      return kTensor;
    case InstructionClass::kLocal:
      return kLocal;
    default:
      return kArithmetic;
  }
}

bool IsLoad(const Instr& instr) {
  const MemoryUse use = RowOf(instr.op).memory;
  return use == MemoryUse::kLoad || use == MemoryUse::kLoadRows ||
         (use == MemoryUse::kFragment && instr.Has(Modifier::kLoad));
}

/// The end of a chain: the time until its result is available, and what that time consists of.
struct Tail {
  double total = 0, clocks = 0;
  uint32_t loads = 0, shared_loads = 0;
};

/// `is_result_read`: an instruction reads the result (matters for atomics).
void Extend(const Instr& instr, bool is_result_read, Tail* tail) {
  const InstructionClass kind = ClassOf(instr);
  if ((kind == InstructionClass::kGlobal && IsLoad(instr)) ||
      (kind == InstructionClass::kAtomic && is_result_read && !instr.Has(Modifier::kShared))) {
    ++tail->loads;
    tail->total += kGlobal;
  } else if (kind == InstructionClass::kShared && IsLoad(instr)) {
    ++tail->shared_loads;
    tail->total += kShared;
  } else {
    const double clocks = LatencyOf(instr, kind);
    tail->clocks += clocks;
    tail->total += clocks;
  }
}

class Walk {
 public:
  explicit Walk(const ptx::Function& function)
      : function_(function), tails_(function.registers.size()), is_read_(tails_.size(), false) {
    for (const Instr& instr : function.body) {
      uses_.push_back(UseOf(instr));
      for (int reg : uses_.back().reads) is_read_[static_cast<size_t>(reg)] = true;
    }
  }

  Chain Of(const BasicBlock& block) {
    Tail longest;
    std::vector<int> written;
    for (size_t i = block.begin; i < block.end; ++i) {
      const Instr& instr = function_.body[i];
      const RegisterUse& use = uses_[i];
      Tail tail;
      auto wait_for = [&](int reg) {
        const Tail& other = tails_[static_cast<size_t>(reg)];
        if (other.total > tail.total) tail = other;
      };
      for (int reg : use.reads) wait_for(reg);
      const bool is_result_read = std::any_of(use.writes.begin(), use.writes.end(), [&](int reg) {
        return is_read_[static_cast<size_t>(reg)];
      });
      Extend(instr, is_result_read, &tail);
      for (int reg : use.writes) {
        tails_[static_cast<size_t>(reg)] = tail;
        written.push_back(reg);
      }
      if (tail.total > longest.total) longest = tail;
    }
    for (int reg : written) tails_[static_cast<size_t>(reg)] = {};
    uint32_t count = 0;
    for (size_t i = block.begin; i < block.end; ++i) count += !IsFree(function_.body[i]);
    return {static_cast<uint32_t>(block.begin), static_cast<uint32_t>(block.end),
            std::max(count, static_cast<uint32_t>(std::lround(longest.clocks))), longest.loads,
            longest.shared_loads};
  }

 private:
  const ptx::Function& function_;
  std::vector<RegisterUse> uses_;
  std::vector<Tail> tails_;  // by register
  std::vector<bool> is_read_;
};

}  // namespace

std::vector<Chain> ChainsOf(const ptx::Function& function) {
  Walk walk(function);
  std::vector<Chain> chains;
  for (const BasicBlock& block : BlocksOf(function)) chains.push_back(walk.Of(block));
  return chains;
}

}  // namespace cupel::emu
