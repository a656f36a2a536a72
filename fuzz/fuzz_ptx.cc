// SPDX-License-Identifier: Apache-2.0
#include "harness.h"
#include "ptx/parser.h"

namespace cupel::fuzz {
namespace {

void ClearTextLines(ptx::Module* module) {
  for (ptx::Function& function : module->functions) {
    function.text_line = 0;
    for (ptx::Instr& instr : function.body) instr.text_line = 0;
  }
}

/// Checks what engines rely on without checking it themselves.
void CheckIndices(const ptx::Function& function, const ptx::Operand& operand) {
  CHECK(operand.reg < static_cast<int>(function.registers.size()));
  CHECK(operand.target <= static_cast<int>(function.body.size()));
  if (operand.kind == ptx::OperandKind::kRegister) CHECK(operand.reg >= 0);
  if (operand.kind == ptx::OperandKind::kLabel) CHECK(operand.target >= 0);
  for (const ptx::Operand& element : operand.elements) CheckIndices(function, element);
}

}  // namespace

void RunOne(std::string_view input) {
  auto module = ptx::Parse(input);
  if (!module) {
    CHECK(!module.error().message.empty());
    return;
  }
  for (const ptx::Function& function : module->functions) {
    CHECK(function.branch_tables.size() == function.branch_table_targets.size());
    for (const ptx::Instr& instr : function.body) {
      CHECK(instr.guard < static_cast<int>(function.registers.size()));
      CHECK(instr.location.file < static_cast<int>(module->files.size()));
      CHECK(instr.location.inlined_at < static_cast<int>(module->inlined_sites.size()));
      for (const ptx::Operand& operand : instr.operands) CheckIndices(function, operand);
    }
  }
  auto again = ptx::Parse(ptx::Print(*module));
  CHECK(again.has_value());
  ClearTextLines(&*module);
  ClearTextLines(&*again);
  CHECK(*module == *again);
}

}  // namespace cupel::fuzz
