// Tested by wide_registers_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/decode/wide_registers.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace cupel::emu {
namespace {

using ptx::Instr;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

class Splitter {
 public:
  explicit Splitter(ptx::Function* function)
      : function_(*function), low_(function->registers.size(), -1) {}

  void Run() {
    for (size_t reg = 0; reg < low_.size(); ++reg) {
      if (function_.registers[reg].type != Type::kB128) continue;
      low_[reg] = static_cast<int>(function_.registers.size());
      for (const char* part : {".low", ".high"}) {
        function_.registers.push_back({function_.registers[reg].name + part, Type::kB64});
      }
    }
    if (function_.registers.size() == low_.size()) return;
    for (Instr& instr : function_.body) Split(instr);
  }

 private:
  bool IsWide(const Operand& operand) const {
    return operand.kind == OperandKind::kRegister && operand.reg >= 0 &&
           low_[static_cast<size_t>(operand.reg)] >= 0;
  }

  void AddParts(const Operand& operand, std::vector<Operand>* parts) const {
    for (int part = 0; part < 2; ++part) {
      Operand& half = parts->emplace_back(operand);
      half.reg = low_[static_cast<size_t>(operand.reg)] + part;
    }
  }

  void Split(Instr& instr) const {
    bool is_wide = false;
    for (Operand& operand : instr.operands) {
      std::vector<Operand> elements;
      if (IsWide(operand)) {
        AddParts(operand, &elements);
        operand = {};
        operand.kind = OperandKind::kVector;
      } else if (operand.kind == OperandKind::kVector) {
        for (const Operand& element : operand.elements) {
          IsWide(element) ? AddParts(element, &elements) : elements.push_back(element);
        }
        if (elements.size() == operand.elements.size()) continue;
      } else {
        continue;
      }
      operand.elements = std::move(elements);
      is_wide = true;
    }
    const bool moves =
        instr.op == Opcode::kLd || instr.op == Opcode::kLdu || instr.op == Opcode::kSt;
    if (!is_wide || !moves || !instr.Has(Modifier::kB128)) return;
    const Modifier vector = instr.Has(Modifier::kV2) ? Modifier::kV4 : Modifier::kV2;
    instr.modifiers.Erase(Modifier::kB128);
    instr.modifiers.Erase(Modifier::kV2);
    instr.modifiers.Add(vector);
    instr.modifiers.Add(Modifier::kB64);  // the type is the last word
  }

  ptx::Function& function_;
  std::vector<int> low_;  // by register: the first of its two parts; -1: it is not wide
};

}  // namespace

bool HasWideRegisters(const ptx::Function& function) {
  return std::any_of(function.registers.begin(), function.registers.end(),
                     [](const ptx::Register& reg) { return reg.type == Type::kB128; });
}

void SplitWideRegisters(ptx::Function* function) { Splitter(function).Run(); }

}  // namespace cupel::emu
