// Assigns slots to registers, constants, parameters and variables. A register that is written once,
// with a constant, a parameter, a special register or a copy, gets no slot: it is an alias of that
// value's slot. PTX from nvcc is in static single assignment form except for loop variables.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/round_up.h"
#include "emu/core/call_stacks.h"
#include "emu/core/handler_table.h"
#include "emu/decode/decoder.h"
#include "emu/isa/register_use.h"

namespace cupel::emu {
namespace {

using ptx::Instr;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;
using ptx::Type;

void CollectSymbols(const Operand& operand, std::set<std::string>* out) {
  if (!operand.symbol.empty()) out->insert(operand.symbol);
  for (const Operand& element : operand.elements) CollectSymbols(element, out);
}

}  // namespace

SlotKind Decoder::KindOf(int reg) const {
  const Type type = function_.registers[static_cast<size_t>(reg)].type;
  if (type == Type::kPred) return SlotKind::kPredicate;
  return ptx::SizeOf(type) == 8 ? SlotKind::kDouble : SlotKind::kWord;
}

int Decoder::NewSlot(SlotKind kind) {
  slots_.push_back({kind, 0});
  return static_cast<int>(slots_.size()) - 1;
}

/// A slot that stays free until the end of the current instruction.
int Decoder::Temporary(SlotKind kind) {
  std::vector<int>& pool = temporaries_[kind];
  size_t& used = temporaries_used_[kind];
  if (used == pool.size()) pool.push_back(NewSlot(kind));
  return pool[used++];
}

int Decoder::SharedConstant(SlotKind kind, uint64_t bits, const std::string& symbol) {
  if (kind == SlotKind::kWord) bits &= 0xffffffffu;
  const auto key = std::pair(symbol, std::pair(bits, static_cast<int>(kind)));
  const auto found = constants_.find(key);
  if (found != constants_.end()) return found->second;
  const int slot = NewSlot(kind);
  constants_.emplace(key, slot);
  return slot;
}

int Decoder::SpecialSlotOf(Special which) {
  const auto found = specials_.find(which);
  if (found != specials_.end()) return found->second;
  return specials_[which] = NewSlot(SlotKind::kWord);
}

/// Places each variable that the kernel names in shared, local or parameter memory.
void Decoder::PlaceVariables() {
  std::set<std::string> named;
  for (const Instr& instr : function_.body) {
    for (const Operand& operand : instr.operands) CollectSymbols(operand, &named);
  }
  for (const ptx::Param& param : function_.params) {
    places_[param.name] = {Space::kParam, param.offset};
  }
  frame_bytes_.assign(1, 0);
  PlaceFrames();
  uint64_t shared = 0, local = 0, dynamic_align = 1;
  std::vector<std::string> dynamic;
  auto place = [&](const ptx::Variable& variable) {
    if (!named.contains(variable.name) || places_.contains(variable.name)) return;
    const auto align = static_cast<uint64_t>(std::max(variable.align, 1));
    if (variable.space == Space::kShared) {
      if (variable.is_extern || variable.bytes == 0) {
        dynamic.push_back(variable.name);
        dynamic_align = std::max(dynamic_align, align);
        return;
      }
      shared = RoundUp<uint64_t>(shared, align);
      places_[variable.name] = {Space::kShared, shared};
      shared += variable.bytes;
    } else if (variable.space == Space::kLocal || variable.space == Space::kParam) {
      local = RoundUp<uint64_t>(local, std::max<uint64_t>(align, 16));
      places_[variable.name] = {Space::kLocal, local};
      local += variable.bytes;
    }
  };
  for (const ptx::Variable& variable : function_.variables) place(variable);
  for (const ptx::Variable& variable : module_.variables) place(variable);
  if (!dynamic.empty()) shared = RoundUp<uint64_t>(shared, std::max<uint64_t>(dynamic_align, 16));
  for (const std::string& name : dynamic) places_[name] = {Space::kShared, shared};
  constexpr uint64_t kMost = uint64_t{1} << 24;
  if (shared > kMost || local > kMost) {
    Fail("more than 16 MiB of shared or local variables");
    return;
  }
  kernel_->static_shared_bytes = static_cast<uint32_t>(shared);
  kernel_->local_bytes = static_cast<uint32_t>(RoundUp<uint64_t>(local, 16));
  frame_bytes_[0] = kernel_->local_bytes;
  if (!inlined_.functions.empty()) {
    kernel_->local_bytes += kCallStackBytes;
    stack_pointer_ = NewSlot(SlotKind::kWord);
  }
}

bool Decoder::IsOnStack(const std::string& variable) const {
  const auto place = places_.find(variable);
  return place != places_.end() && place->second.on_stack;
}

/// Places the variables of called functions in a frame: parameters first, as callers expect.
void Decoder::PlaceFrames() {
  for (const CalledFunction& called : inlined_.functions) {
    uint64_t at = 0;
    for (size_t i = called.first_variable; i < called.end_variable; ++i) {
      const ptx::Variable& variable = function_.variables[i];
      if (variable.space != Space::kLocal && variable.space != Space::kParam) continue;
      at = RoundUp<uint64_t>(
          at, static_cast<uint64_t>(std::max<int>(variable.align, static_cast<int>(kFrameAlign))));
      places_[variable.name] = {Space::kLocal, at, true};
      at += variable.bytes;
    }
    frame_bytes_.push_back(static_cast<uint32_t>(RoundUp<uint64_t>(at, kFrameAlign)));
    if (at > kCallStackBytes) Fail("a called function with more variables than the stack holds");
  }
}

/// Finds the slot with the only value of a register if it is a constant or a copy.
bool Decoder::AliasTo(const Instr& instr, const CopyRules& rules, int* slot) {
  if (instr.guard >= 0 || instr.operands.size() != 2) return false;
  const Operand& to = instr.operands[0];
  const Operand& from = instr.operands[1];
  if (to.kind != OperandKind::kRegister) return false;
  const SlotKind kind = KindOf(to.reg);
  const ptx::Types types = instr.Types();
  if (types.size() != 1 || kind == SlotKind::kPredicate) return false;
  if ((ptx::SizeOf(types[0]) == 8) != (kind == SlotKind::kDouble)) return false;
  if (instr.op == Opcode::kLd && instr.Has(Modifier::kParam) &&
      from.kind == OperandKind::kAddress && from.reg < 0 && instr.modifiers.size() == 2) {
    const auto place = places_.find(from.symbol);
    if (place == places_.end() || place->second.space != Space::kParam) return false;
    const uint64_t at = place->second.offset + static_cast<uint64_t>(from.offset);
    const auto bytes = static_cast<uint32_t>(ptx::SizeOf(types[0]));
    if (at + bytes > function_.param_bytes || at % bytes != 0) return false;
    const bool is_signed = types[0] == Type::kS8 || types[0] == Type::kS16;
    const auto key = std::pair(static_cast<uint32_t>(at), std::pair(bytes, is_signed));
    if (!parameters_.contains(key)) parameters_[key] = NewSlot(kind);
    *slot = parameters_[key];
    return true;
  }
  const bool is_identity = (instr.op == Opcode::kCvta && instr.Has(Modifier::kGlobal)) ||
                           (instr.op == Opcode::kMov && instr.modifiers.size() == 1);
  if (!is_identity) return false;
  switch (from.kind) {
    case OperandKind::kRegister: {
      const int source = register_slot_[static_cast<size_t>(from.reg)];
      if (source < 0 || KindOf(from.reg) != kind) return false;
      const int origin = origin_[static_cast<size_t>(from.reg)];
      const auto here = static_cast<size_t>(current_);
      if (origin >= 0 && !rules.AlwaysEqual(to.reg, static_cast<size_t>(origin), here))
        return false;
      origin_[static_cast<size_t>(to.reg)] = origin;
      *slot = source;
      return true;
    }
    case OperandKind::kImmediate:
      *slot = ReadImmediate(from, kind, types[0]);
      return true;
    case OperandKind::kSymbol:
      if (instr.op != Opcode::kMov || IsOnStack(from.symbol)) return false;
      *slot = ReadSymbol(from, kind);
      return *slot >= 0;
    case OperandKind::kSpecial:
      if (from.symbol.starts_with("clock") || from.symbol.starts_with("globaltimer")) return false;
      if (kind != SlotKind::kWord) return false;
      *slot = ReadSpecial(from.symbol, kind);
      return *slot >= 0;
    default:
      return false;
  }
}

/// Fills register_slot_ for aliases and for registers that are written once. AssignSlots does the
/// others.
void Decoder::AliasRegisters() {
  const size_t count = function_.registers.size();
  std::vector<int> writes(count, 0);
  for (const Instr& instr : function_.body) {
    for (int reg : UseOf(instr).writes) ++writes[static_cast<size_t>(reg)];
  }
  register_slot_.assign(count, -1);
  origin_.assign(count, -1);
  const CopyRules rules(function_);
  aliased_.assign(function_.body.size(), false);
  for (size_t i = 0; i < function_.body.size(); ++i) {
    const Instr& instr = function_.body[i];
    current_ = static_cast<int>(i);
    const RegisterUse use = UseOf(instr);
    int slot = -1;
    if (use.writes.size() == 1 && writes[static_cast<size_t>(use.writes[0])] == 1 &&
        AliasTo(instr, rules, &slot)) {
      register_slot_[static_cast<size_t>(use.writes[0])] = slot;
      aliased_[i] = true;
      continue;
    }
    for (int reg : use.writes) {
      if (writes[static_cast<size_t>(reg)] == 1) {
        register_slot_[static_cast<size_t>(reg)] = NewSlot(KindOf(reg));
        origin_[static_cast<size_t>(reg)] = static_cast<int>(i);
      }
    }
  }
}

void Decoder::AssignSlots() {
  AliasRegisters();
  for (size_t reg = 0; reg < register_slot_.size(); ++reg) {
    if (register_slot_[reg] < 0) register_slot_[reg] = NewSlot(KindOf(static_cast<int>(reg)));
  }
  defined_slot_.assign(register_slot_.size(), -1);
  values_ = register_slot_;
  ShareSlots();
  for (int& slot : defined_slot_) {
    if (slot == kNeeded) slot = NewSlot(SlotKind::kPredicate);
  }
}

/// Doubles first, then words, then predicates. All but the predicates are 64-byte aligned.
void Decoder::LayOutFrame() {
  int64_t at = kScratchBytes;
  for (SlotKind kind : {SlotKind::kDouble, SlotKind::kWord, SlotKind::kPredicate}) {
    const int64_t bytes = kind == SlotKind::kDouble ? 256 : (kind == SlotKind::kWord ? 128 : 4);
    for (Slot& slot : slots_) {
      if (slot.kind != kind) continue;
      slot.offset = static_cast<int32_t>(at);
      at += bytes;
    }
    at = (at + 63) / 64 * 64;
    if (at > (int64_t{1} << 28)) {
      Fail("more registers than the interpreter supports");
      return;
    }
  }
  code_->frame_bytes = static_cast<int32_t>(at);
  auto offset = [&](int slot) { return slots_[static_cast<size_t>(slot)].offset; };
  for (const auto& [key, slot] : constants_) {
    const SlotKind kind = slots_[static_cast<size_t>(slot)].kind;
    code_->constants.push_back({offset(slot), kind, key.second.first, key.first});
  }
  for (const auto& [which, slot] : specials_) code_->specials.push_back({which, offset(slot)});
  for (const auto& [key, slot] : parameters_) {
    code_->parameters.push_back({offset(slot), key.first, key.second.first, key.second.second});
  }
  for (int slot : defined_slot_) {
    if (slot >= 0) code_->cleared.push_back(offset(slot));
  }
  for (int slot : undefined_) {
    const SlotKind kind = slots_[static_cast<size_t>(slot)].kind;
    const int bytes = kind == SlotKind::kDouble ? 256 : (kind == SlotKind::kWord ? 128 : 4);
    code_->undefined.push_back({offset(slot), offset(slot) + bytes});
  }
}

}  // namespace cupel::emu
