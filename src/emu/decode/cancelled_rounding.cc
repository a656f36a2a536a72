// SPDX-License-Identifier: Apache-2.0
#include "emu/decode/cancelled_rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "emu/isa/register_use.h"

namespace cupel::emu {
namespace {

using ptx::Function;
using ptx::Instr;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

constexpr size_t kMostFollowed = 64;  // registers that depend on one k
constexpr uint64_t kExponentShift = 23;

/// What a register holds. `y` is anything that does not depend on k.
enum class HeldValue {
  kSum,       // k plus the large constant
  kBits,      // the bits of that
  kExponent,  // those shifted
  kScale,     // ± 2^k, times a constant
  kPlus,      // y + k
  kMinus,     // y - k
  kPower,     // 2^(y - k)
};

struct PlacesOfUse {
  std::vector<size_t> writers, readers;
};

class RoundingFinder {
 public:
  explicit RoundingFinder(const Function& function)
      : function_(function), uses_(function.registers.size()), block_(function.body.size()) {
    size_t label = 0;
    for (size_t i = 0; i < function.body.size(); ++i) {
      const RegisterUse use = UseOf(function.body[i]);
      for (int reg : use.writes) uses_[static_cast<size_t>(reg)].writers.push_back(i);
      for (int reg : use.reads) uses_[static_cast<size_t>(reg)].readers.push_back(i);
      bool starts = i > 0 && Ends(function.body[i - 1]);
      for (; label < function.labels.size() && function.labels[label].index <= static_cast<int>(i);
           ++label) {
        starts = true;
      }
      block_[i] = (i == 0 ? 0 : block_[i - 1]) + (starts ? 1 : 0);
    }
  }

  std::vector<bool> Find() {
    std::vector<bool> found(function_.body.size());
    for (size_t i = 0; i < function_.body.size(); ++i) {
      if (!RoundsByMagic(function_.body[i])) continue;
      const std::optional<std::vector<size_t>> others = Follow(i);
      if (!others) continue;
      found[i] = true;
      for (size_t other : *others) found[other] = true;
    }
    return found;
  }

 private:
  static bool Ends(const Instr& instr) {
    return instr.op == Opcode::kBra || instr.op == Opcode::kBrx || instr.op == Opcode::kCall ||
           instr.op == Opcode::kRet || instr.op == Opcode::kExit;
  }
  static bool IsFloat(const Instr& instr, Opcode op, size_t operands) {
    return instr.op == op && !instr.modifiers.empty() &&
           ptx::TypeOf(instr.modifiers.back()) == Type::kF32 && instr.operands.size() == operands;
  }
  static bool IsRegister(const Operand& operand, int reg) {
    return operand.kind == OperandKind::kRegister && operand.reg == reg;
  }

  /// The float that an operand always is: written as such, or moved to a register once.
  std::optional<float> ConstantOf(const Operand& operand) const {
    if (operand.kind == OperandKind::kImmediate && operand.imm_type == Type::kF32) {
      return std::bit_cast<float>(static_cast<uint32_t>(operand.bits));
    }
    if (operand.kind != OperandKind::kRegister || operand.reg < 0) return std::nullopt;
    const PlacesOfUse& uses = uses_[static_cast<size_t>(operand.reg)];
    if (uses.writers.size() != 1) return std::nullopt;
    const Instr& move = function_.body[uses.writers[0]];
    if (move.op != Opcode::kMov || move.guard >= 0 || move.operands.size() != 2 ||
        move.operands[1].kind != OperandKind::kImmediate) {
      return std::nullopt;
    }
    return ConstantOf(move.operands[1]);
  }

  /// Sums with a constant so large that the last digit of the result is 1.
  bool RoundsByMagic(const Instr& instr) const {
    const auto is_magic = [&](const Operand& operand) {
      const std::optional<float> value = ConstantOf(operand);
      return value && *value >= 0x1p23f && *value < 0x1p24f;
    };
    if (IsFloat(instr, Opcode::kFma, 4)) return is_magic(instr.operands[3]);
    return IsFloat(instr, Opcode::kAdd, 3) &&
           (is_magic(instr.operands[1]) || is_magic(instr.operands[2]));
  }

  /// Follows all uses of the result of `sum`. Returns the other instructions to report if all of
  /// them cancel.
  std::optional<std::vector<size_t>> Follow(size_t sum) {
    holds_.clear();
    waiting_.clear();
    found_.clear();
    products_.clear();
    if (!Add(sum, HeldValue::kSum)) return std::nullopt;
    while (!waiting_.empty()) {
      const int reg = waiting_.back();
      waiting_.pop_back();
      for (size_t reader : uses_[static_cast<size_t>(reg)].readers) {
        const bool fits =
            reader > sum && block_[reader] == block_[sum] && function_.body[reader].guard < 0;
        if (!fits || !Use(reader, reg)) return std::nullopt;
      }
    }
    const bool cancel =
        !products_.empty() && std::all_of(products_.begin(), products_.end(),
                                          [&](const Instr* product) { return Cancels(*product); });
    return cancel ? std::optional(found_) : std::nullopt;
  }

  /// Notes what the result of an instruction holds. False if something else may be there, too.
  bool Add(size_t at, HeldValue what) {
    const Operand& result = function_.body[at].operands[0];
    if (result.kind != OperandKind::kRegister || result.reg < 0 ||
        uses_[static_cast<size_t>(result.reg)].writers.size() != 1) {
      return false;
    }
    const auto [place, is_new] = holds_.try_emplace(result.reg, what);
    if (is_new) waiting_.push_back(result.reg);
    return place->second == what && holds_.size() <= kMostFollowed;
  }

  std::optional<HeldValue> HeldBy(const Operand& operand) const {
    if (operand.kind != OperandKind::kRegister) return std::nullopt;
    const auto found = holds_.find(operand.reg);
    return found == holds_.end() ? std::nullopt : std::optional(found->second);
  }

  /// One use of a register that depends on k. False if k does not cancel.
  bool Use(size_t at, int reg) {
    const Instr& instr = function_.body[at];
    const std::vector<Operand>& o = instr.operands;
    switch (holds_.at(reg)) {
      case HeldValue::kSum:
        if (instr.op == Opcode::kMov && o.size() == 2) return Add(at, HeldValue::kBits);
        if (!HasTerm(instr, reg) || !ConstantOf(OtherTerm(instr, reg))) return false;
        found_.push_back(at);
        return Add(at, HeldValue::kPlus);
      case HeldValue::kBits:
        if (instr.op != Opcode::kShl || o.size() != 3 || !IsRegister(o[1], reg) ||
            o[2].kind != OperandKind::kImmediate || o[2].bits != kExponentShift) {
          return false;
        }
        found_.push_back(at);
        return Add(at, HeldValue::kExponent);
      case HeldValue::kExponent:
        return instr.op == Opcode::kMov && o.size() == 2 && Add(at, HeldValue::kScale);
      case HeldValue::kPlus:
        if (IsFloat(instr, Opcode::kNeg, 2)) return Add(at, HeldValue::kMinus);
        return IsFloat(instr, Opcode::kSub, 3) && IsRegister(o[2], reg) && !HeldBy(o[1]) &&
               Add(at, HeldValue::kMinus);
      case HeldValue::kMinus:
        if (IsFloat(instr, Opcode::kEx2, 2)) return Add(at, HeldValue::kPower);
        if (IsFloat(instr, Opcode::kFma, 4)) {
          return IsRegister(o[3], reg) && !HeldBy(o[1]) && !HeldBy(o[2]) &&
                 Add(at, HeldValue::kMinus);
        }
        return HasTerm(instr, reg) && !HeldBy(OtherTerm(instr, reg)) && Add(at, HeldValue::kMinus);
      case HeldValue::kScale:
      case HeldValue::kPower:
        if (!IsFloat(instr, Opcode::kMul, 3) && !IsFloat(instr, Opcode::kFma, 4)) return false;
        products_.push_back(&instr);  // what the other factor holds may show later
        return true;
    }
    return false;
  }

  /// True if the register is one of two terms of a sum, or the first of a difference.
  static bool HasTerm(const Instr& instr, int reg) {
    if (IsFloat(instr, Opcode::kAdd, 3)) {
      return IsRegister(instr.operands[1], reg) != IsRegister(instr.operands[2], reg);
    }
    return IsFloat(instr, Opcode::kSub, 3) && IsRegister(instr.operands[1], reg) &&
           !IsRegister(instr.operands[2], reg);
  }
  static const Operand& OtherTerm(const Instr& instr, int reg) {
    return IsRegister(instr.operands[1], reg) ? instr.operands[2] : instr.operands[1];
  }

  /// True for the product of both factors, also plus a term that does not depend on k.
  bool Cancels(const Instr& product) const {
    const std::vector<Operand>& o = product.operands;
    const std::optional<HeldValue> a = HeldBy(o[1]), b = HeldBy(o[2]);
    const bool both = (a == HeldValue::kScale && b == HeldValue::kPower) ||
                      (a == HeldValue::kPower && b == HeldValue::kScale);
    return both && (o.size() == 3 || !HeldBy(o[3]));
  }

  const Function& function_;
  std::vector<PlacesOfUse> uses_;  // by register
  std::vector<int> block_;         // by instruction
  std::map<int, HeldValue> holds_;
  std::vector<int> waiting_;  // registers whose uses are not followed yet
  std::vector<size_t> found_;
  std::vector<const Instr*> products_;
};

}  // namespace

std::vector<bool> CancelledRoundings(const Function& function) {
  return RoundingFinder(function).Find();
}

}  // namespace cupel::emu
