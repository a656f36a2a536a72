// Parses functions: header, directives, and the body with its nested scopes, into the flat IR.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ptx/declarations.h"
#include "ptx/ir.h"
#include "ptx/lexer.h"
#include "ptx/locations.h"
#include "ptx/symbols.h"

namespace cupel::ptx {

/// Parses one function. Symbols, locations and budget belong to the module.
class FunctionParser {
 public:
  FunctionParser(TokenStream& in, SymbolTable& symbols, LocationTable& locations, Budget* budget,
                 Function* function)
      : in_(in), symbols_(symbols), locations_(locations), budget_(budget), function_(function) {}

  /// Parses what follows ".entry" or ".func", up to the end of the body or a declaration's
  /// semicolon.
  bool Parse();

 private:
  enum class LabelKind : uint8_t { kCode, kBranchTable, kPrototype };
  struct LabelKey {
    int scope;
    std::string_view name;
    bool operator==(const LabelKey&) const = default;
  };
  struct LabelKeyHash {
    size_t operator()(const LabelKey& key) const;
  };
  struct LabelEntry {
    LabelKind kind;
    int index;  // into labels, branch_tables or prototypes
  };
  /// A use of a label before all labels are known.
  struct LabelUse {
    LabelKind kind;
    LabelKey key;
    int line;
    int instr;    // -1: an entry of a branch table
    int operand;  // operand of `instr`, or entry of the branch table
    int table;
  };

  // Header and declarations.
  bool ParseHeader();
  bool DeclareParams(const std::vector<Param>& params);
  bool ParseDirective(std::string_view word);
  bool ParseDimensions(std::vector<int>* dimensions);
  bool ParsePrototype(std::string_view name);
  bool ParseBranchTable(std::string_view name);
  bool ParseRegisters();
  bool ParseRegister(Type type);
  bool ParseVectorRegister(Type type, int width);
  bool ParseLocalVariables(Space space);
  bool ParsePragma(int index);

  // Statements.
  bool ParseBody();
  bool ParseDotStatement();
  bool ParseStatement();
  bool EnterScope();
  bool LeaveScope();
  bool DefineLabel(std::string_view name, LabelKind kind, int index);
  bool ParseLabelled(std::string_view name);
  bool ParseGuard(Instr* instr);
  bool ParseInstr(std::string_view op, int line, Instr instr);
  bool ParseModifiers(std::string_view op, Instr* instr);
  bool ParseOperands(Instr* instr);
  bool ParseCall(Instr* instr);
  bool ResolveLabels();
  const LabelEntry* FindLabel(const LabelUse& use) const;

  // Operands.
  bool SpendOperand() { return Spend(in_, &budget_->operands, "operands"); }
  bool ParseOperand(Operand* operand);
  bool ParseSimple(Operand* operand);
  bool ParseNumber(Operand* operand);
  bool ParseScalar(Operand* operand);
  bool ParseName(Operand* operand);
  bool ParsePart(const Symbol& vector, Operand* operand);
  bool ParseVector(Operand* operand);
  bool ParseAddress(Operand* operand);
  bool ParseOffset(int64_t* offset);
  bool ParseCallParams(Operand* operand);
  void UseLabel(LabelKind kind, std::string_view name, int line, size_t operand);

  TokenStream& in_;
  SymbolTable& symbols_;
  LocationTable& locations_;
  Budget* budget_;
  Function* function_;

  std::vector<int> scopes_;         // open scopes, innermost last
  std::vector<int> scope_parents_;  // by scope
  std::unordered_map<LabelKey, LabelEntry, LabelKeyHash> labels_;
  std::vector<LabelUse> label_uses_;
};

}  // namespace cupel::ptx
