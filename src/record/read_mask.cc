// SPDX-License-Identifier: Apache-2.0
#include "record/read_mask.h"

#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/tensor_map.h"

namespace cupel::record {
namespace {

/// A place in the parameter block.
struct Place {
  const ptx::Param* param = nullptr;
  int64_t offset = 0;  // in the parameter
};

int VectorWidth(const ptx::Instr& instr) {
  if (instr.Has(ptx::Modifier::kV2)) return 2;
  if (instr.Has(ptx::Modifier::kV4)) return 4;
  if (instr.Has(ptx::Modifier::kV8)) return 8;
  return 1;
}

class MaskBuilder {
 public:
  explicit MaskBuilder(const ptx::Function& kernel)
      : kernel_(kernel),
        mask_(kernel.param_bytes, '\0'),
        definitions_(kernel.registers.size()),
        mentions_(kernel.registers.size()) {
    for (const ptx::Param& param : kernel.params) params_[param.name] = &param;
    for (const ptx::Instr& instr : kernel.body) {
      if (!instr.operands.empty()) CountDefinitions(instr.operands[0]);
      for (const ptx::Operand& operand : instr.operands) CountMentions(operand);
      if (IsRegister(instr.guard)) ++mentions_[static_cast<size_t>(instr.guard)];
    }
    // Each pass follows at least one more register. Uses may precede definitions in the text.
    while (FollowRegisters()) {
    }
    for (const ptx::Instr& instr : kernel.body) MarkUses(instr);
  }
  std::string Take() { return std::move(mask_); }

 private:
  bool IsRegister(int reg) const {
    return reg >= 0 && static_cast<size_t>(reg) < definitions_.size();
  }

  void CountDefinitions(const ptx::Operand& operand) {
    if (operand.kind == ptx::OperandKind::kRegister && IsRegister(operand.reg)) {
      ++definitions_[static_cast<size_t>(operand.reg)];
    }
    for (const ptx::Operand& element : operand.elements) CountDefinitions(element);
  }

  void CountMentions(const ptx::Operand& operand) {
    if (IsRegister(operand.reg)) ++mentions_[static_cast<size_t>(operand.reg)];
    for (const ptx::Operand& element : operand.elements) CountMentions(element);
  }

  /// True if nothing uses what a load writes there: a vector may load padding, too.
  bool IsDead(const ptx::Operand& element) const {
    if (element.kind == ptx::OperandKind::kSink) return true;
    return element.kind == ptx::OperandKind::kRegister && IsRegister(element.reg) &&
           mentions_[static_cast<size_t>(element.reg)] == 1;
  }

  /// Marks what a load from `place` reads, without elements that nothing uses.
  void MarkLoad(const ptx::Instr& instr, const Place& place) {
    const auto bytes = static_cast<uint64_t>(ptx::SizeOf(instr.Types().back()));
    const auto width = static_cast<size_t>(VectorWidth(instr));
    const std::vector<ptx::Operand>& elements = instr.operands[0].elements;
    if (elements.size() != width) return Mark(place, bytes * width);
    for (size_t i = 0; i < width; ++i) {
      if (IsDead(elements[i])) continue;
      Mark({place.param, place.offset + static_cast<int64_t>(i * bytes)}, bytes);
    }
  }

  /// Of an operand that is the address of a parameter, or a register that contains one.
  std::optional<Place> PlaceOf(const ptx::Operand& operand) const {
    const auto plus = [&](Place place) {
      place.offset += operand.offset;
      return place;
    };
    if (!operand.symbol.empty()) {
      const auto it = params_.find(operand.symbol);
      if (it == params_.end()) return std::nullopt;
      return plus({it->second, 0});
    }
    const auto it = places_.find(operand.reg);
    if (it == places_.end()) return std::nullopt;
    return plus(it->second);
  }

  /// What `instr` computes if it only moves an address of a parameter or adds a constant.
  std::optional<Place> Computed(const ptx::Instr& instr) const {
    const auto& operands = instr.operands;
    if (operands.size() < 2 || instr.guard >= 0 ||
        operands[0].kind != ptx::OperandKind::kRegister || !IsRegister(operands[0].reg) ||
        definitions_[static_cast<size_t>(operands[0].reg)] != 1) {
      return std::nullopt;
    }
    if (operands.size() == 2 && (instr.op == ptx::Opcode::kMov || instr.op == ptx::Opcode::kCvta)) {
      return PlaceOf(operands[1]);
    }
    if (operands.size() != 3 || instr.op != ptx::Opcode::kAdd ||
        operands[2].kind != ptx::OperandKind::kImmediate) {
      return std::nullopt;
    }
    auto place = PlaceOf(operands[1]);
    if (place) place->offset += static_cast<int64_t>(operands[2].bits);
    return place;
  }

  bool FollowRegisters() {
    const size_t before = places_.size();
    for (const ptx::Instr& instr : kernel_.body) {
      if (const auto place = Computed(instr)) places_.emplace(instr.operands[0].reg, *place);
    }
    return places_.size() > before;
  }

  void Mark(const Place& place, uint64_t bytes) {
    const ptx::Param& param = *place.param;
    const bool inside = place.offset >= 0 && bytes <= param.bytes &&
                        static_cast<uint64_t>(place.offset) <= param.bytes - bytes;
    const uint64_t from = param.offset + (inside ? static_cast<uint64_t>(place.offset) : 0);
    const uint64_t end = from + (inside ? bytes : param.bytes);
    for (uint64_t i = from; i < end && i < mask_.size(); ++i) mask_[i] = 1;
  }

  void MarkUses(const ptx::Instr& instr) {
    if (Computed(instr)) return;
    for (const ptx::Operand& operand : instr.operands) MarkUse(instr, operand);
  }

  void MarkUse(const ptx::Instr& instr, const ptx::Operand& operand) {
    for (const ptx::Operand& element : operand.elements) MarkUse(instr, element);
    const auto place = PlaceOf(operand);
    if (!place) return;
    const auto types = instr.Types();
    const bool indexed = !operand.symbol.empty() && operand.reg >= 0;
    const bool address = operand.kind == ptx::OperandKind::kAddress && !indexed;
    if (address && instr.op == ptx::Opcode::kLd && !types.empty()) {
      MarkLoad(instr, *place);
    } else if (address &&
               (instr.Has(ptx::Modifier::kTensor) || instr.Has(ptx::Modifier::kTensormap))) {
      Mark(*place, plan::kTensorMapBytes);
    } else {
      Mark({place->param, 0}, place->param->bytes);
    }
  }

  const ptx::Function& kernel_;
  std::string mask_;
  std::vector<int> definitions_, mentions_;  // of each register
  std::map<std::string_view, const ptx::Param*> params_;
  std::map<int, Place> places_;  // of registers
};

}  // namespace

std::string ReadMask(const ptx::Function& kernel) { return MaskBuilder(kernel).Take(); }

}  // namespace cupel::record
