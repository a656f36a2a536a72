// Tested by shared_fusion_test.cc, and against the widths in cubins by cubin_widths_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/decode/shared_fusion.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <string>

#include "emu/decode/decoder.h"
#include "emu/isa/register_use.h"

namespace cupel::emu {
namespace {

using ptx::Function;
using ptx::Instr;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;

constexpr int kMostZeros = 16;  // enough low zero bits for any width
// Bounds the time for unusual code. Accesses beyond these limits are counted as not fused.
constexpr int kMostPasses = 64;
constexpr size_t kMostRuns = 32;

/// How many low bits of registers are known to be zero, for all values assigned to them.
class KnownZeros {
 public:
  explicit KnownZeros(const Function& function)
      : function_(function), zeros_(function.registers.size(), kMostZeros) {
    // Starts with "all of them" and decreases until nothing changes: loops need several rounds.
    bool changed = true;
    for (int round = 0; round < kMostPasses && changed; ++round) {
      changed = false;
      for (const Instr& instr : function.body) changed |= Visit(instr);
    }
    if (changed) std::fill(zeros_.begin(), zeros_.end(), 0);
  }
  int Of(int reg) const { return zeros_[static_cast<size_t>(reg)]; }
  int Of(const Operand& operand) const {
    switch (operand.kind) {
      case OperandKind::kRegister:
        return operand.reg >= 0 ? Of(operand.reg) : 0;
      case OperandKind::kImmediate:
        return OfBits(operand.bits);
      case OperandKind::kSymbol:
        // ptxas places the variables of a kernel, so it knows their addresses.
        return std::min(kMostZeros, OfBits(static_cast<uint64_t>(operand.offset)));
      default:
        return 0;
    }
  }

 private:
  static int OfBits(uint64_t bits) { return std::min(kMostZeros, std::countr_zero(bits)); }

  bool Visit(const Instr& instr) {
    bool changed = false;
    const std::vector<int> writes = UseOf(instr).writes;
    if (writes.empty()) return false;
    const int zeros = writes.size() == 1 ? std::clamp(Result(instr), 0, kMostZeros) : 0;
    for (int reg : writes) {
      int& known = zeros_[static_cast<size_t>(reg)];
      if (zeros < known) {
        known = zeros;
        changed = true;
      }
    }
    return changed;
  }

  int Result(const Instr& instr) const {
    const std::vector<Operand>& o = instr.operands;
    const Opcode op = instr.op;
    if ((op == Opcode::kMov || op == Opcode::kCvt || op == Opcode::kCvta) && o.size() == 2)
      return Of(o[1]);
    if (o.size() < 3) return 0;
    if (op == Opcode::kAdd || op == Opcode::kSub || op == Opcode::kOr)
      return std::min(Of(o[1]), Of(o[2]));
    if (op == Opcode::kAnd) return std::max(Of(o[1]), Of(o[2]));
    if (op == Opcode::kSelp) return std::min(Of(o[1]), Of(o[2]));
    if (op == Opcode::kShl && o[2].kind == OperandKind::kImmediate) {
      return Of(o[1]) + static_cast<int>(std::min<uint64_t>(o[2].bits, kMostZeros));
    }
    const bool high = instr.Has(Modifier::kHi);
    if (op == Opcode::kMul && !high) return Of(o[1]) + Of(o[2]);
    if (op == Opcode::kMad && !high && o.size() == 4)
      return std::min(Of(o[1]) + Of(o[2]), Of(o[3]));
    return 0;
  }

  const Function& function_;
  std::vector<int> zeros_;
};

struct Access {
  size_t instr = 0;
  int64_t offset = 0;
  uint32_t bytes = 0;
};

/// Accesses of one kind from one base, with nothing in between that separates them.
struct AccessRun {
  int reg = -1;
  std::string symbol;
  std::vector<Access> accesses;
  bool Matches(const Operand& address) const {
    return reg == address.reg && symbol == address.symbol;
  }
};

bool IsShared(const Instr& instr) {
  return instr.modifiers.HasAny({Modifier::kShared, Modifier::kSharedCta});
}

uint32_t BytesOf(const Instr& instr) {
  const ptx::Types types = instr.Types();
  if (types.empty()) return 0;
  const auto element = static_cast<uint32_t>(ptx::SizeOf(types.back()));
  return element * (instr.Has(Modifier::kV4) ? 4 : instr.Has(Modifier::kV2) ? 2 : 1);
}

class Fuser {
 public:
  explicit Fuser(const Function& function)
      : function_(function), known_(function), result_(function.body.size()) {
    // Variables are placed one after the other, in the order of their declarations.
    int64_t at = 0;
    for (const ptx::Variable& variable : function.variables) {
      if (variable.space != ptx::Space::kShared) continue;
      const int64_t align = std::max(variable.align, 1);
      at = (at + align - 1) / align * align;
      places_[variable.name] = at;
      at += static_cast<int64_t>(variable.bytes);
    }
  }

  std::vector<SharedFusion> Go() {
    std::vector<bool> starts_block(function_.body.size() + 1);
    for (const Instr& instr : function_.body) {
      for (const Operand& operand : instr.operands) {
        if (operand.kind == OperandKind::kLabel && operand.target >= 0) {
          starts_block[static_cast<size_t>(operand.target)] = true;
        }
      }
    }
    for (const std::vector<int>& table : function_.branch_table_targets) {
      for (int target : table) starts_block[static_cast<size_t>(target)] = true;
    }
    for (size_t i = 0; i < function_.body.size(); ++i) {
      if (starts_block[i]) Close();
      Visit(i, function_.body[i]);
    }
    Close();
    return std::move(result_);
  }

 private:
  void Visit(size_t i, const Instr& instr) {
    const Opcode op = instr.op;
    const bool load = op == Opcode::kLd, store = op == Opcode::kSt;
    // Larger displacements would overflow. They are beyond shared memory and fault anyway.
    constexpr int64_t kFar = int64_t{1} << 40;
    const bool whole = instr.operands.size() == 2 && BytesOf(instr) > 0 &&
                       std::abs(instr.operands[store ? 0 : 1].offset / 2) < kFar;
    if ((load || store) && whole && IsShared(instr) && instr.guard < 0 &&
        !instr.Has(Modifier::kVolatile)) {
      const Operand address = Placed(instr.operands[store ? 0 : 1]);
      // Stores keep their order with other stores and loads, loads with stores.
      if (store != stores_) Close();
      stores_ = store;
      if (store && !runs_.empty() && !runs_.back().Matches(address)) Close();
      Add({i, address.offset, BytesOf(instr)}, address);
    } else if (store || op == Opcode::kBra || op == Opcode::kBrx || op == Opcode::kRet ||
               op == Opcode::kExit || op == Opcode::kCall || op == Opcode::kAtom ||
               op == Opcode::kRed || op == Opcode::kBar || op == Opcode::kBarrier ||
               op == Opcode::kMembar || op == Opcode::kFence || op == Opcode::kCp ||
               op == Opcode::kLdmatrix) {
      const bool elsewhere = store && (instr.Has(Modifier::kGlobal) || instr.Has(Modifier::kLocal));
      if (!elsewhere) Close();
    }
    for (int reg : UseOf(instr).writes) {
      const auto changed = std::find_if(runs_.begin(), runs_.end(),
                                        [&](const AccessRun& run) { return run.reg == reg; });
      if (changed == runs_.end()) continue;
      Fuse(*changed);
      runs_.erase(changed);
    }
  }

  /// Converts an address in a variable to one in all of shared memory.
  Operand Placed(Operand address) const {
    const auto place = address.reg < 0 ? places_.find(address.symbol) : places_.end();
    if (place != places_.end()) {
      address.offset += place->second;
      address.symbol.clear();
    }
    return address;
  }

  void Add(const Access& access, const Operand& address) {
    auto run = std::find_if(runs_.begin(), runs_.end(),
                            [&](const AccessRun& r) { return r.Matches(address); });
    if (run == runs_.end()) {
      if (runs_.size() >= kMostRuns) {
        Fuse(runs_.front());
        runs_.erase(runs_.begin());
      }
      runs_.push_back({address.reg, address.symbol, {}});
      run = runs_.end() - 1;
    }
    run->accesses.push_back(access);
  }

  void Close() {
    for (AccessRun& run : runs_) Fuse(run);
    runs_.clear();
  }

  /// Fuses the widest aligned piece first, from the lowest address up.
  void Fuse(AccessRun& run) {
    std::vector<Access>& all = run.accesses;
    std::stable_sort(all.begin(), all.end(),
                     [](const Access& a, const Access& b) { return a.offset < b.offset; });
    const int zeros = run.reg >= 0 ? known_.Of(run.reg) : kMostZeros;
    for (size_t first = 0; first < all.size();) {
      size_t taken = 0;
      for (uint32_t width : {16u, 8u}) {
        if ((1 << zeros) % width != 0 || all[first].offset % width != 0) continue;
        taken = Covering(all, first, width);
        if (taken > 1) {
          Join(all, first, taken, width);
          break;
        }
      }
      first += std::max<size_t>(taken, 1);
    }
  }

  /// How many accesses from `first` cover `width` bytes without a gap, or 0.
  static size_t Covering(const std::vector<Access>& all, size_t first, uint32_t width) {
    int64_t end = all[first].offset;
    for (size_t i = first; i < all.size(); ++i) {
      if (all[i].offset != end || all[i].bytes < 4) return 0;
      end += all[i].bytes;
      if (end == all[first].offset + width) return i - first + 1;
      if (end > all[first].offset + width) return 0;
    }
    return 0;
  }

  void Join(const std::vector<Access>& all, size_t first, size_t count, uint32_t width) {
    size_t leader = all[first].instr;
    for (size_t i = first; i < first + count; ++i) leader = std::min(leader, all[i].instr);
    for (size_t i = first; i < first + count; ++i) {
      SharedFusion& fusion = result_[all[i].instr];
      fusion.bytes = width;
      fusion.shift = static_cast<int32_t>(all[first].offset - all[i].offset);
      fusion.is_member = all[i].instr != leader;
    }
  }

  const Function& function_;
  KnownZeros known_;
  std::vector<SharedFusion> result_;
  std::map<std::string, int64_t> places_;
  std::vector<AccessRun> runs_;
  bool stores_ = false;
};

}  // namespace

std::vector<SharedFusion> FuseSharedAccesses(const Function& function) {
  return Fuser(function).Go();
}

}  // namespace cupel::emu
