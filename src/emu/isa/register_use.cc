// SPDX-License-Identifier: Apache-2.0
#include "emu/isa/register_use.h"

namespace cupel::emu {
namespace {

using ptx::Instr;
using ptx::Modifier;
using ptx::Operand;
using ptx::OperandKind;

void CollectRegisters(const Operand& operand, std::vector<int>* out) {
  if (operand.reg >= 0) out->push_back(operand.reg);
  for (const Operand& element : operand.elements) CollectRegisters(element, out);
}

bool HasDestination(const Instr& instr) {
  switch (ptx::WritesOf(instr.op)) {
    case ptx::Writes::kNothing:
      return false;
    case ptx::Writes::kFirst:
    case ptx::Writes::kUpdatesFirst:
      return true;
    case ptx::Writes::kFirstOfReduction:
      return instr.Has(Modifier::kRed);
    case ptx::Writes::kFirstOfLoad:
      return instr.Has(Modifier::kLd);
  }
  return false;
}

}  // namespace

RegisterUse UseOf(const Instr& instr) {
  RegisterUse use;
  if (instr.guard >= 0) use.reads.push_back(instr.guard);
  const bool writes = HasDestination(instr);
  for (size_t i = 0; i < instr.operands.size(); ++i) {
    const Operand& operand = instr.operands[i];
    const bool is_write = writes && i == 0 && operand.kind != OperandKind::kAddress;
    CollectRegisters(operand, is_write ? &use.writes : &use.reads);
    if (is_write && ptx::WritesOf(instr.op) == ptx::Writes::kUpdatesFirst) {
      CollectRegisters(operand, &use.reads);
    }
  }
  return use;
}

}  // namespace cupel::emu
