// Tested by regions_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/cost/regions.h"

#include <algorithm>
#include <cmath>

#include "emu/isa/basic_blocks.h"
#include "emu/isa/instruction_class.h"
#include "emu/isa/instructions.h"
#include "emu/isa/register_use.h"

namespace cupel::emu {
namespace {

using ptx::Instr;
using ptx::Modifier;
using ptx::Opcode;
using records::InstructionClass;

// Clocks from an instruction to one that needs its result, measured on an H200 with
// bench/calibrate. Local memory and constants count as loads that hit the L1.
constexpr double kArithmeticClocks = 4.5;
constexpr double kDoubleClocks = 8.8;
constexpr double kSpecialClocks = 17;
constexpr double kConversionClocks = 12;
constexpr double kWarpClocks = 24;
constexpr double kMatchClocks = 78;
constexpr double kIntegerDivisionClocks = 138;
constexpr double kFloatDivisionClocks = 45;
constexpr double kDoubleDivisionClocks = 200;
constexpr double kTensorClocks = 33;
constexpr double kSharedClocks = 34;
constexpr double kLocalClocks = 46;
constexpr double kGlobalClocks = 400;  // between the latencies of the L2 and of DRAM

// What ptxas 13.0 does with kernels written to find its limits and with those of bench/rank. It
// predicates blocks of 20 instructions, both sides of an `else` too, and not of 24. It unrolls
// loops of 52 instructions that store nothing, and not of 53; with stores, loops of 29 and not
// of 32.
constexpr size_t kMostPredicated = 20;
constexpr size_t kMostUnrolled = 52;
constexpr size_t kMostUnrolledWithStores = 30;

double ClocksOf(const Instr& instr, InstructionClass kind) {
  if (IsFree(instr)) return 0;
  const Latency latency = RowOf(instr.op).latency;
  if (latency == Latency::kMatch) return kMatchClocks;
  switch (kind) {
    case InstructionClass::kFp64:
      return latency != Latency::kClass ? kDoubleDivisionClocks : kDoubleClocks;
    case InstructionClass::kSpecial:
      return instr.modifiers.HasAny({Modifier::kRn, Modifier::kRz}) ? kFloatDivisionClocks
                                                                    : kSpecialClocks;
    case InstructionClass::kInteger:
      return latency == Latency::kDivision ? kIntegerDivisionClocks : kArithmeticClocks;
    case InstructionClass::kConversion:
      return kConversionClocks;
    case InstructionClass::kWarp:
      return kWarpClocks;
    case InstructionClass::kTensor:
      return kTensorClocks;
    case InstructionClass::kLocal:
      return kLocalClocks;
    default:
      return kArithmeticClocks;
  }
}

bool ReadsMemory(const Instr& instr) {
  const MemoryUse use = RowOf(instr.op).memory;
  return use == MemoryUse::kLoad || use == MemoryUse::kLoadRows ||
         (use == MemoryUse::kFragment && instr.Has(Modifier::kLoad));
}

bool WritesMemory(const Instr& instr) {
  const MemoryUse use = RowOf(instr.op).memory;
  return use == MemoryUse::kStore || use == MemoryUse::kStoreRows ||
         (use == MemoryUse::kFragment && instr.Has(Modifier::kStore));
}

/// True for instructions that become one machine instruction, or a few, which may be predicated.
bool MayBePredicated(const Instr& instr) {
  const Instruction& row = RowOf(instr.op);
  const InstructionClass kind = ClassOf(instr);
  if (instr.op == Opcode::kBra) return true;
  if (kind == InstructionClass::kControl || kind == InstructionClass::kBarrier ||
      row.lanes == Lanes::kTogether || row.memory == MemoryUse::kAtomic ||
      row.memory == MemoryUse::kCopy) {
    return false;
  }
  if (row.latency == Latency::kClass) return true;
  const bool is_sequence =
      kind != InstructionClass::kSpecial || instr.modifiers.HasAny({Modifier::kRn, Modifier::kRz});
  return !is_sequence;
}

const ptx::Operand* AddressOf(const Instr& instr) {
  for (const ptx::Operand& operand : instr.operands) {
    if (operand.kind == ptx::OperandKind::kAddress) return &operand;
  }
  return nullptr;
}

int64_t StoredBytes(const Instr& instr) {
  const int64_t elements = instr.Has(Modifier::kV8)   ? 8
                           : instr.Has(Modifier::kV4) ? 4
                           : instr.Has(Modifier::kV2) ? 2
                                                      : 1;
  return elements * ptx::SizeOf(ptx::TypeOf(instr.modifiers.back()));
}

/// The stores of [begin, end) to global memory that continue another one.
std::vector<uint32_t> MergedStores(const ptx::Function& function, size_t begin, size_t end) {
  constexpr int64_t kMostMerged = 32;
  std::vector<uint32_t> merged;
  const Instr* last = nullptr;
  int64_t stored = 0;  // bytes of the stores that belong together
  for (size_t i = begin; i < end; ++i) {
    const Instr& instr = function.body[i];
    if (instr.op != Opcode::kSt || ClassOf(instr) != InstructionClass::kGlobal) continue;
    const ptx::Operand* address = AddressOf(instr);
    if (address == nullptr) continue;
    const int64_t bytes = StoredBytes(instr);
    const bool continues = last != nullptr && AddressOf(*last)->reg == address->reg &&
                           AddressOf(*last)->offset + StoredBytes(*last) == address->offset &&
                           last->guard == instr.guard && stored + bytes <= kMostMerged;
    if (continues) merged.push_back(static_cast<uint32_t>(i));
    stored = continues ? stored + bytes : bytes;
    last = &instr;
  }
  return merged;
}

/// Joins basic blocks to regions.
class RegionJoiner {
 public:
  explicit RegionJoiner(const ptx::Function& function)
      : function_(function),
        blocks_(BlocksOf(function)),
        first_entry_(blocks_.size()),
        last_entry_(blocks_.size(), 0) {
    for (size_t b = 0; b < blocks_.size(); ++b) first_entry_[b] = b;
    for (size_t b = 0; b < blocks_.size(); ++b) {
      for (const size_t next : blocks_[b].successors) {
        first_entry_[next] = std::min(first_entry_[next], b);
        last_entry_[next] = std::max(last_entry_[next], b);
      }
    }
  }

  /// The blocks of one region, and those of them that all of its paths reach.
  struct Joined {
    size_t begin = 0, end = 0;
    std::vector<size_t> joins;
  };
  std::vector<Joined> Join() const {
    std::vector<Joined> regions;
    for (size_t b = 0; b < blocks_.size(); b = regions.back().end) {
      Joined region{b, b + 1, {}};
      while (const size_t join = JoinAfter(region)) {
        region.joins.push_back(join);
        region.end = join + 1;
      }
      regions.push_back(std::move(region));
    }
    return regions;
  }

  const BasicBlock& block(size_t b) const { return blocks_[b]; }

  /// Whether ptxas unrolls the region: a loop that counts in constant steps, and that the kernel
  /// did not ask nvcc to unroll or to leave alone.
  bool Unrolls(const Joined& region) const {
    const size_t begin = blocks_[region.begin].begin, end = blocks_[region.end - 1].end;
    const Instr& last = function_.body[end - 1];
    if (last.op != Opcode::kBra || last.guard < 0 || end - begin > kMostUnrolled ||
        last.operands[0].target != static_cast<int>(begin)) {
      return false;
    }
    const auto& pragmas = function_.pragmas;
    if (std::any_of(pragmas.begin(), pragmas.end(), [&](const ptx::Pragma& pragma) {
          return pragma.index >= static_cast<int>(begin) && pragma.index < static_cast<int>(end) &&
                 pragma.text == "nounroll";
        })) {
      return false;
    }
    bool stores = false;
    for (size_t i = begin; i < end; ++i) {
      if (!MayBePredicated(function_.body[i])) return false;
      stores |= WritesMemory(function_.body[i]);
    }
    return (!stores || end - begin <= kMostUnrolledWithStores) && Counts(begin, end, last.guard);
  }

 private:
  /// The block at which the paths from the region's last block meet again, if only short blocks
  /// that can be predicated are in between; 0 if there is none.
  size_t JoinAfter(const Joined& region) const {
    const size_t last = region.end - 1;
    size_t join = last + 1;
    for (size_t b = last; b < join; ++b) {
      if (b > last && !CanBePredicated(blocks_[b])) return 0;
      const Instr& end = function_.body[blocks_[b].end - 1];
      if (end.op == Opcode::kRet || end.op == Opcode::kExit || end.op == Opcode::kBrx) return 0;
      // An unconditional branch of the last block leaves the region.
      if (b == last && end.op == Opcode::kBra && end.guard < 0) return 0;
      for (const size_t next : blocks_[b].successors) {
        if (next <= b) return 0;
        join = std::max(join, next);
      }
      if (join >= blocks_.size() || join - last > kMostGuarded) return 0;
    }
    // ptxas leaves the kernel instead of skipping its last instructions.
    if (join > last + 1 && function_.body[blocks_[join].begin].op == Opcode::kRet) return 0;
    // No other code may enter.
    for (size_t b = last + 1; b <= join; ++b) {
      if (first_entry_[b] < last || last_entry_[b] >= join) return 0;
      if (b < join && LoadsAfterStore(region, b)) return 0;
    }
    return join;
  }

  bool CanBePredicated(const BasicBlock& block) const {
    if (block.end - block.begin > kMostPredicated) return false;
    for (size_t i = block.begin; i < block.end; ++i) {
      if (!MayBePredicated(function_.body[i])) return false;
    }
    return true;
  }

  /// True if a guarded block loads what the region may have stored: ptxas keeps such a branch.
  bool LoadsAfterStore(const Joined& region, size_t guarded) const {
    const auto any = [&](size_t first, size_t end, auto&& is) {
      for (size_t i = blocks_[first].begin; i < blocks_[end - 1].end; ++i) {
        if (is(function_.body[i])) return true;
      }
      return false;
    };
    return any(guarded, guarded + 1,
               [](const Instr& i) { return ReadsMemory(i) && !i.Has(Modifier::kNc); }) &&
           any(region.begin, region.end, WritesMemory);
  }

  /// The last instruction of [begin, end) that writes the register; null if there is none.
  const Instr* WriterOf(size_t begin, size_t end, int reg) const {
    for (size_t i = end; i > begin; --i) {
      const std::vector<int> writes = UseOf(function_.body[i - 1]).writes;
      if (std::find(writes.begin(), writes.end(), reg) != writes.end())
        return &function_.body[i - 1];
    }
    return nullptr;
  }

  /// Whether the loop's condition compares numbers that change by a constant in each iteration, or
  /// not at all.
  bool Counts(size_t begin, size_t end, int condition) const {
    const Instr* compare = WriterOf(begin, end, condition);
    if (compare == nullptr || compare->op != Opcode::kSetp) return false;
    bool counts = false;
    for (const int reg : UseOf(*compare).reads) {
      const Instr* step = WriterOf(begin, end, reg);
      if (step == nullptr) continue;
      const std::vector<ptx::Operand>& operands = step->operands;
      const bool is_constant =
          (step->op == Opcode::kAdd || step->op == Opcode::kSub) &&
          std::any_of(operands.begin(), operands.end(), [](const ptx::Operand& operand) {
            return operand.kind == ptx::OperandKind::kImmediate;
          });
      if (!is_constant) return false;
      counts = true;
    }
    return counts;
  }

  static constexpr size_t kMostGuarded = 8;  // blocks between a branch and its join

  const ptx::Function& function_;
  std::vector<BasicBlock> blocks_;
  std::vector<size_t> first_entry_, last_entry_;  // of the blocks that lead to a block
};

/// The end of a chain: the time until its result is available, and what that time consists of.
struct ChainEnd {
  double total = 0, clocks = 0;
  uint32_t loads = 0, shared_loads = 0;

  void WaitFor(const ChainEnd& other) {
    if (other.total > total) *this = other;
  }
};

class RegionWalk {
 public:
  explicit RegionWalk(const ptx::Function& function)
      : function_(function), tails_(function.registers.size()), is_read_(tails_.size(), false) {
    for (const Instr& instr : function.body) {
      uses_.push_back(UseOf(instr));
      for (int reg : uses_.back().reads) is_read_[static_cast<size_t>(reg)] = true;
    }
  }

  /// True for accesses whose result takes as long as a load from global memory.
  bool IsFar(size_t i) const {
    const Instr& instr = function_.body[i];
    const InstructionClass kind = ClassOf(instr);
    return (kind == InstructionClass::kGlobal && ReadsMemory(instr)) ||
           (kind == InstructionClass::kAtomic && IsResultRead(i) && !instr.Has(Modifier::kShared));
  }

  /// The chain of `iterations` of the instructions [begin, end), one after another. `joins`: the
  /// instructions that are reached on all paths; the others wait for the branches before them.
  Chain Of(size_t begin, size_t end, const std::vector<size_t>& joins, uint32_t iterations) {
    ChainEnd longest;
    std::vector<int> written;
    stores_.clear();
    uint32_t count = 0;
    for (uint32_t iteration = 0; iteration < iterations; ++iteration) {
      guards_.clear();
      for (size_t i = begin; i < end; ++i) {
        if (std::find(joins.begin(), joins.end(), i) != joins.end()) guards_.clear();
        const Instr& instr = function_.body[i];
        if (instr.op == Opcode::kBra && i + 1 < end) {
          if (instr.guard >= 0) guards_.push_back(instr.guard);
          continue;
        }
        count += !IsFree(instr);
        const ChainEnd tail = EndOf(i);
        for (int reg : uses_[i].writes) {
          // A predicated instruction may leave the old value.
          ChainEnd& value = tails_[static_cast<size_t>(reg)];
          if (guards_.empty()) value = {};
          value.WaitFor(tail);
          written.push_back(reg);
        }
        longest.WaitFor(tail);
      }
    }
    for (int reg : written) tails_[static_cast<size_t>(reg)] = {};
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end),
            std::max(count, static_cast<uint32_t>(std::lround(longest.clocks))), longest.loads,
            longest.shared_loads};
  }

 private:
  /// Stores to addresses with the same base register. The values of all are known at `ready`.
  struct Stores {
    InstructionClass space;
    int base;
    ChainEnd ready;
  };

  bool IsResultRead(size_t i) const {
    const std::vector<int>& writes = uses_[i].writes;
    return std::any_of(writes.begin(), writes.end(),
                       [&](int reg) { return is_read_[static_cast<size_t>(reg)]; });
  }

  static int BaseOf(const Instr& instr) {
    const ptx::Operand* address = AddressOf(instr);
    return address != nullptr ? address->reg : -1;
  }

  ChainEnd EndOf(size_t i) {
    const Instr& instr = function_.body[i];
    const InstructionClass kind = ClassOf(instr);
    ChainEnd tail;
    for (int reg : uses_[i].reads) tail.WaitFor(tails_[static_cast<size_t>(reg)]);
    for (int reg : guards_) tail.WaitFor(tails_[static_cast<size_t>(reg)]);
    if (ReadsMemory(instr) && !instr.Has(Modifier::kNc)) {
      // ptxas keeps loads behind stores, unless it sees that the addresses differ.
      for (const Stores& store : stores_) {
        if (store.space == kind && store.base != BaseOf(instr)) tail.WaitFor(store.ready);
      }
    }
    if (WritesMemory(instr)) {
      const auto same = std::find_if(stores_.begin(), stores_.end(), [&](const Stores& store) {
        return store.space == kind && store.base == BaseOf(instr);
      });
      if (same == stores_.end()) {
        stores_.push_back({kind, BaseOf(instr), tail});
      } else {
        same->ready.WaitFor(tail);
      }
    }
    if (IsFar(i)) {
      ++tail.loads;
      tail.total += kGlobalClocks;
    } else if (kind == InstructionClass::kShared && ReadsMemory(instr)) {
      ++tail.shared_loads;
      tail.total += kSharedClocks;
    } else {
      const double clocks = ClocksOf(instr, kind);
      tail.clocks += clocks;
      tail.total += clocks;
    }
    return tail;
  }

  const ptx::Function& function_;
  std::vector<RegisterUse> uses_;
  std::vector<ChainEnd> tails_;  // by register
  std::vector<bool> is_read_;
  std::vector<int> guards_;
  std::vector<Stores> stores_;
};

}  // namespace

std::vector<Region> RegionsOf(const ptx::Function& function) {
  const RegionJoiner joiner(function);
  RegionWalk walk(function);
  std::vector<Region> regions;
  for (const RegionJoiner::Joined& joined : joiner.Join()) {
    const size_t begin = joiner.block(joined.begin).begin;
    const size_t end = joiner.block(joined.end - 1).end;
    std::vector<size_t> joins;
    joins.reserve(joined.joins.size());
    for (const size_t b : joined.joins) joins.push_back(joiner.block(b).begin);
    Region region;
    region.chain = walk.Of(begin, end, joins, 1);
    if (joiner.Unrolls(joined)) region.unrolled = walk.Of(begin, end, joins, kUnrolled);
    for (size_t i = begin; i < end; ++i) {
      if (walk.IsFar(i)) region.loads.push_back(static_cast<uint32_t>(i));
    }
    region.merged_stores = MergedStores(function, begin, end);
    regions.push_back(std::move(region));
  }
  return regions;
}

}  // namespace cupel::emu
