// Tested by unused_read_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/check/value_flow.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "emu/isa/instructions.h"
#include "emu/isa/register_use.h"

namespace cupel::emu {
namespace {

using ptx::Instr;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;

constexpr size_t kMostSetBits = size_t{1} << 26;  // of the sets of all blocks

bool IsJump(const Instr& instr) {
  return instr.op == Opcode::kBra || instr.op == Opcode::kBrx || instr.op == Opcode::kRet ||
         instr.op == Opcode::kExit;
}

ValueRule RuleOf(const Instr& instr) {
  switch (instr.op) {
    case Opcode::kLd:
    case Opcode::kLdu:
    case Opcode::kLdmatrix:
      return ValueRule::kLoads;
    case Opcode::kShfl:
    case Opcode::kVote:
    case Opcode::kMatch:
    case Opcode::kRedux:
    case Opcode::kMma:
    case Opcode::kMovmatrix:
      return ValueRule::kAcross;
    default:
      break;
  }
  const Instruction& row = RowOf(instr.op);
  // The condition code has no register.
  if (instr.Has(Modifier::kCc)) return ValueRule::kUses;
  if (row.lanes != Lanes::kAlone || row.memory != MemoryUse::kNone) return ValueRule::kUses;
  if (ptx::WritesOf(instr.op) != ptx::Writes::kFirst) return ValueRule::kUses;
  switch (row.decode) {
    case Decode::kTable:
    case Decode::kMov:
    case Decode::kCvta:
    case Decode::kSetp:
    case Decode::kSet:
    case Decode::kChoose:
      return ValueRule::kByLane;
    default:
      return ValueRule::kUses;
  }
}

/// Special registers that are the same in every run of a launch.
bool IsFixed(std::string_view special) {
  constexpr std::array<std::string_view, 7> kFixed{"tid",    "ntid",     "ctaid",  "nctaid",
                                                   "laneid", "lanemask", "cluster"};
  return std::any_of(kFixed.begin(), kFixed.end(),
                     [&](std::string_view name) { return special.starts_with(name); });
}

bool ReadsVaryingSpecial(const Operand& operand) {
  if (operand.kind == OperandKind::kSpecial && !IsFixed(operand.symbol)) return true;
  return std::any_of(operand.elements.begin(), operand.elements.end(), ReadsVaryingSpecial);
}

/// True if the result may differ between runs with the same values.
bool IsSource(const Instr& instr, ValueRule rule) {
  if (rule == ValueRule::kLoads) return !instr.Has(Modifier::kParam);
  if (rule == ValueRule::kUses) return true;
  return std::any_of(instr.operands.begin(), instr.operands.end(), ReadsVaryingSpecial);
}

/// True if a thread may end in the block. The end of the function is no block.
bool MayEnd(const BasicBlock& block, const Instr& last) {
  if (last.op == Opcode::kRet || last.op == Opcode::kExit) return true;
  const bool continues = last.op == Opcode::kBra && last.guard >= 0;
  return block.successors.size() < (continues ? 2u : 1u);
}

/// By block: the blocks that are on every path from it to the end, itself included. A block that
/// cannot reach the end has all.
std::vector<std::vector<bool>> PostDominators(const std::vector<BasicBlock>& blocks,
                                              const std::vector<Instr>& body) {
  std::vector<std::vector<bool>> sets(blocks.size(), std::vector<bool>(blocks.size(), true));
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = blocks.size(); b-- > 0;) {
      const bool may_end = MayEnd(blocks[b], body[blocks[b].end - 1]);
      std::vector<bool> set(blocks.size(), !may_end);
      for (const size_t next : blocks[b].successors) {
        for (size_t i = 0; i < set.size(); ++i) set[i] = set[i] && sets[next][i];
      }
      set[b] = true;
      if (set == sets[b]) continue;
      sets[b] = std::move(set);
      changed = true;
    }
  }
  return sets;
}

/// The blocks whose execution depends on where block `from` continues.
std::vector<bool> Controlled(const std::vector<BasicBlock>& blocks,
                             const std::vector<std::vector<bool>>& after, size_t from,
                             bool may_end) {
  std::vector<bool> reached(blocks.size(), false);
  std::vector<size_t> rest = blocks[from].successors;
  while (!rest.empty()) {
    const size_t block = rest.back();
    rest.pop_back();
    // What comes on every path does not depend on the decision, unless that may end the thread.
    if (reached[block] || (!may_end && block != from && after[from][block])) continue;
    reached[block] = true;
    rest.insert(rest.end(), blocks[block].successors.begin(), blocks[block].successors.end());
  }
  return reached;
}

}  // namespace

ValueFlow::ValueFlow(const KernelText& text) {
  const std::vector<Instr>& body = text.function.body;
  for (const int value : text.values) {
    values_ = std::max(values_, static_cast<size_t>(std::max(value, 0)) + 1);
  }
  const auto value_of = [&](int reg) { return text.values[static_cast<size_t>(reg)]; };
  instrs_.resize(body.size());
  for (size_t i = 0; i < body.size(); ++i) {
    InstrFlow& flow = instrs_[i];
    flow.rule = RuleOf(body[i]);
    flow.is_jump = IsJump(body[i]);
    if (body[i].guard >= 0) flow.guard = value_of(body[i].guard);
    RegisterUse use = UseOf(body[i]);
    // The guard comes first.
    if (body[i].guard >= 0) use.reads.erase(use.reads.begin());
    for (const int reg : use.reads) flow.reads.push_back(value_of(reg));
    for (const int reg : use.writes) flow.writes.push_back(value_of(reg));
  }
  const std::vector<BasicBlock> blocks = BlocksOf(text.function);
  for (size_t b = 0; b < blocks.size(); ++b) {
    for (size_t i = blocks[b].begin; i < blocks[b].end; ++i) {
      instrs_[i].block = static_cast<uint32_t>(b);
    }
  }
  FindLive(text, blocks);
  FindVarying(text, blocks);
}

void ValueFlow::FindLive(const KernelText& text, const std::vector<BasicBlock>& blocks) {
  if (blocks.empty() || blocks.size() * values_ > kMostSetBits) return;
  live_out_.assign(blocks.size(), std::vector<bool>(values_, false));
  std::vector<std::vector<bool>> live_in = live_out_;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = blocks.size(); b-- > 0;) {
      for (const size_t next : blocks[b].successors) {
        for (size_t v = 0; v < values_; ++v) {
          if (live_in[next][v]) live_out_[b][v] = true;
        }
      }
      std::vector<bool> live = live_out_[b];
      for (size_t i = blocks[b].end; i-- > blocks[b].begin;) {
        if (text.aliased[i]) continue;
        const InstrFlow& flow = instrs_[i];
        // If the guard is false, the old value stays.
        if (flow.guard < 0) {
          for (const int value : flow.writes) live[static_cast<size_t>(value)] = false;
        } else {
          live[static_cast<size_t>(flow.guard)] = true;
        }
        for (const int value : flow.reads) live[static_cast<size_t>(value)] = true;
      }
      if (live == live_in[b]) continue;
      live_in[b] = std::move(live);
      changed = true;
    }
  }
}

/// Does not distinguish where a value is written: it varies if one of its writes does.
void ValueFlow::FindVarying(const KernelText& text, const std::vector<BasicBlock>& blocks) {
  const std::vector<Instr>& body = text.function.body;
  std::vector<bool> varies(values_, false);
  std::vector<bool> depends(blocks.size(), false);  // whether the block runs
  std::vector<bool> followed(body.size(), false);   // the blocks of this jump are in `depends`
  const bool is_large = blocks.size() * blocks.size() > kMostSetBits;
  const std::vector<std::vector<bool>> after =
      is_large ? std::vector<std::vector<bool>>() : PostDominators(blocks, body);
  const auto is_varying = [&](int value) { return varies[static_cast<size_t>(value)]; };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < body.size(); ++i) {
      InstrFlow& flow = instrs_[i];
      const bool by_index = body[i].op == Opcode::kBrx &&
                            std::any_of(flow.reads.begin(), flow.reads.end(), is_varying);
      flow.guard_varies = is_large || (flow.guard >= 0 && is_varying(flow.guard));
      flow.index_varies = body[i].op == Opcode::kBrx && (is_large || by_index);
      if (flow.is_jump && (flow.guard_varies || by_index) && !followed[i] && !is_large) {
        followed[i] = changed = true;
        const bool may_end = MayEnd(blocks[flow.block], body[i]);
        const std::vector<bool> reached = Controlled(blocks, after, flow.block, may_end);
        for (size_t b = 0; b < blocks.size(); ++b) depends[b] = depends[b] || reached[b];
      }
      const bool result = flow.guard_varies || depends[flow.block] ||
                          IsSource(body[i], flow.rule) ||
                          std::any_of(flow.reads.begin(), flow.reads.end(), is_varying);
      if (!result) continue;
      for (const int value : flow.writes) {
        if (is_varying(value)) continue;
        varies[static_cast<size_t>(value)] = changed = true;
      }
    }
  }
}

}  // namespace cupel::emu
