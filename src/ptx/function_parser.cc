// Headers, declarations and scopes of functions; instructions are in instr_parser.cc.
// SPDX-License-Identifier: Apache-2.0
#include "ptx/function_parser.h"

#include <fmt/format.h>

#include <functional>
#include <limits>

#include "ptx/limits.h"
#include "ptx/names.h"

namespace cupel::ptx {
size_t FunctionParser::LabelKeyHash::operator()(const LabelKey& key) const {
  return std::hash<std::string_view>{}(key.name) ^ (static_cast<size_t>(key.scope) << 1);
}

bool FunctionParser::Parse() {
  bool ok = ParseHeader();
  while (ok && in_.current().kind == TokenKind::kDot) {
    const std::string_view word = in_.current().text;
    in_.Advance();
    ok = ParseDirective(word);
  }
  if (ok && in_.Accept(';')) {
    function_->is_declaration = true;
  } else if (ok) {
    locations_.EnterFunction();
    ok = ParseBody() && ResolveLabels();
  }
  while (symbols_.depth() > 0) symbols_.Leave();
  return ok;
}

bool FunctionParser::ParseHeader() {
  function_->text_line = in_.line();
  if (!function_->is_entry && in_.At('(') && !ParseParams(in_, &function_->returns, nullptr)) {
    return false;
  }
  std::string_view name;
  if (!in_.ExpectIdentifier(&name, "a function's name")) return false;
  function_->name = std::string(name);
  if (in_.At('(') && !ParseParams(in_, &function_->params, &function_->param_bytes)) return false;
  if (!function_->is_entry) function_->param_bytes = 0;
  // Declarations may be repeated, and the body may call its own function.
  const Symbol symbol{SymbolKind::kFunction, 0, -1, name};
  if (!symbols_.Declare(name, symbol) && symbols_.Find(name).kind != SymbolKind::kFunction) {
    return in_.Malformed(fmt::format("'{}' is already a variable", Quote(name)));
  }
  symbols_.Enter();
  return DeclareParams(function_->returns) && DeclareParams(function_->params);
}

bool FunctionParser::DeclareParams(const std::vector<Param>& params) {
  for (const Param& param : params) {
    if (param.name == "_") continue;
    symbols_.Unique(param.name);
    // The table may keep views of these names, which is safe: the vectors no longer change.
    if (!symbols_.Declare(param.name, {SymbolKind::kVariable, 0, -1, param.name})) {
      return in_.Malformed(fmt::format("parameter '{}' is declared twice", Quote(param.name)));
    }
  }
  return true;
}

bool FunctionParser::ParseDimensions(std::vector<int>* dimensions) {
  do {
    uint64_t value = 0;
    if (dimensions->size() == 3) return in_.Malformed("more than three dimensions");
    if (!in_.ExpectInteger(kMaxInt, &value, "a dimension")) return false;
    dimensions->push_back(static_cast<int>(value));
  } while (in_.Accept(','));
  return true;
}

bool FunctionParser::ParsePragma(int index) {
  do {
    std::string_view text;
    if (!in_.ExpectString(&text) || !Spend(in_, &budget_->names, "names")) return false;
    function_->pragmas.push_back({index, std::string(text)});
  } while (in_.Accept(','));
  return in_.Expect(';');
}

bool FunctionParser::ParseDirective(std::string_view word) {
  if (word == "maxntid") return ParseDimensions(&function_->max_ntid);
  if (word == "reqntid") return ParseDimensions(&function_->req_ntid);
  if (word == "minnctapersm") return ParseDimensions(&function_->min_nctapersm);
  if (word == "reqnctapercluster") return ParseDimensions(&function_->cluster_dims);
  if (word == "pragma") return ParsePragma(-1);
  if (word == "noreturn" || word == "explicitcluster") {
    (word == "noreturn" ? function_->noreturn : function_->explicit_cluster) = true;
    return true;
  }
  if (word == "maxnreg" || word == "maxclusterrank") {
    uint64_t value = 0;
    if (!in_.ExpectInteger(kMaxInt, &value, "a number")) return false;
    (word == "maxnreg" ? function_->max_nreg : function_->max_cluster_rank) =
        static_cast<int>(value);
    return true;
  }
  return in_.Unsupported(fmt::format("function directive .{}", Quote(word)));
}

bool FunctionParser::ParsePrototype(std::string_view name) {
  Prototype prototype;
  if (in_.At('(') && !ParseParams(in_, &prototype.returns, nullptr)) return false;
  std::string_view placeholder;
  if (!in_.ExpectIdentifier(&placeholder, "_")) return false;
  if (in_.At('(') && !ParseParams(in_, &prototype.params, nullptr)) return false;
  prototype.noreturn = in_.AcceptDot("noreturn");
  if (!in_.Expect(';')) return false;
  const int index = static_cast<int>(function_->prototypes.size());
  function_->prototypes.push_back(std::move(prototype));
  return DefineLabel(name, LabelKind::kPrototype, index);
}

bool FunctionParser::ParseBranchTable(std::string_view name) {
  const int index = static_cast<int>(function_->branch_tables.size());
  auto& table = function_->branch_tables.emplace_back();
  do {
    const int line = in_.line();
    std::string_view label;
    if (!in_.ExpectIdentifier(&label, "a label")) return false;
    if (!SpendOperand()) return false;
    label_uses_.push_back({LabelKind::kCode,
                           {scopes_.back(), label},
                           line,
                           -1,
                           static_cast<int>(table.size()),
                           index});
    table.emplace_back(label);
  } while (in_.Accept(','));
  function_->branch_table_names.emplace_back();
  function_->branch_table_targets.emplace_back(table.size(), -1);
  return in_.Expect(';') && DefineLabel(name, LabelKind::kBranchTable, index);
}

bool FunctionParser::ParseRegisters() {
  const int width = in_.AcceptDot("v2") ? 2 : in_.AcceptDot("v4") ? 4 : 1;
  Type type = Type::kNone;
  if (in_.current().kind == TokenKind::kDot) type = TypeNamed(in_.current().text);
  if (SizeOf(type) == 0 && type != Type::kPred) return in_.Unexpected("a register's type");
  in_.Advance();
  do {
    if (!(width > 1 ? ParseVectorRegister(type, width) : ParseRegister(type))) return false;
  } while (in_.Accept(','));
  return in_.Expect(';');
}

bool FunctionParser::ParseRegister(Type type) {
  std::string_view name;
  if (!in_.ExpectIdentifier(&name, "a register's name")) return false;
  auto& registers = function_->registers;
  const bool is_range = in_.Accept('<');
  uint64_t count = 1;
  if (is_range &&
      (!in_.ExpectInteger(kMaxRegisters, &count, "a number of registers") || !in_.Expect('>'))) {
    return false;
  }
  if (registers.size() + count > kMaxRegisters || count > budget_->registers) {
    return in_.Malformed("too many registers");
  }
  budget_->registers -= count;
  const int first = static_cast<int>(registers.size());
  bool is_new = true;
  if (!is_range) {
    const std::string_view unique = symbols_.Unique(name);
    is_new = symbols_.Declare(name, {SymbolKind::kRegister, 0, first, unique});
    registers.push_back({std::string(unique), type});
  } else {
    // "%r1<3>" declares %r10, %r11 and %r12, which look like members of %r<…>. nvcc never prints
    // that.
    if (SplitNumber(name).stem.size() != name.size()) {
      return in_.Unsupported("a register range whose name ends in a digit");
    }
    const auto size = static_cast<uint32_t>(count);
    const std::string_view prefix = symbols_.UniquePrefix(name, size);
    is_new = symbols_.DeclareRange(name, size, first);
    for (uint32_t i = 0; i < size; ++i) registers.push_back({fmt::format("{}{}", prefix, i), type});
  }
  if (!is_new) return in_.Malformed(fmt::format("'{}' is declared twice", Quote(name)));
  return true;
}

/// Declares a register for each element, with a name of its own.
bool FunctionParser::ParseVectorRegister(Type type, int width) {
  std::string_view name;
  if (!in_.ExpectIdentifier(&name, "a register's name")) return false;
  if (in_.At('<')) return in_.Unsupported("a range of vector registers");
  auto& registers = function_->registers;
  if (registers.size() + 4 > kMaxRegisters || budget_->registers < 4) {
    return in_.Malformed("too many registers");
  }
  budget_->registers -= static_cast<uint64_t>(width);
  const int first = static_cast<int>(registers.size());
  for (int i = 0; i < width; ++i) {
    registers.push_back({std::string(symbols_.UniquePart(name, "xyzw"[i])), type});
  }
  return symbols_.Declare(name, {SymbolKind::kVector, 0, first, name, width}) ||
         in_.Malformed(fmt::format("'{}' is declared twice", Quote(name)));
}

bool FunctionParser::ParseLocalVariables(Space space) {
  Variable prefix;
  prefix.space = space;
  auto& variables = function_->variables;
  const size_t first = variables.size();
  std::vector<std::string_view> names;
  if (!ParseVariables(in_, prefix, symbols_, budget_, &variables, &names)) return false;
  for (size_t i = first; i < variables.size(); ++i) {
    if (!variables[i].initializer.empty()) {
      return in_.Malformed("a variable of a function has an initialiser");
    }
    const std::string_view name = names[i - first];
    const std::string_view unique = symbols_.Unique(name);
    if (!symbols_.Declare(name, {SymbolKind::kVariable, 0, -1, unique})) {
      return in_.Malformed(fmt::format("'{}' is declared twice", Quote(name)));
    }
    variables[i].name = std::string(unique);
  }
  return true;
}

bool FunctionParser::EnterScope() {
  if (scopes_.size() >= kMaxScopes) return in_.Malformed("blocks are nested too deeply");
  scope_parents_.push_back(scopes_.empty() ? -1 : scopes_.back());
  scopes_.push_back(static_cast<int>(scope_parents_.size()) - 1);
  symbols_.Enter();
  return true;
}

bool FunctionParser::LeaveScope() {
  scopes_.pop_back();
  symbols_.Leave();
  return true;
}

bool FunctionParser::ParseBody() {
  if (!in_.Expect('{') || !EnterScope()) return false;
  while (!scopes_.empty()) {
    if (in_.Accept('}')) {
      LeaveScope();
    } else if (in_.Accept('{')) {
      if (!EnterScope()) return false;
    } else if (in_.Accept(';')) {
      continue;  // an empty statement
    } else if (!ParseStatement()) {
      return false;
    }
  }
  return true;
}

bool FunctionParser::ParseDotStatement() {
  const std::string_view word = in_.current().text;
  in_.Advance();
  if (word == "loc") return locations_.ParseLoc(in_);
  if (word == "reg") return ParseRegisters();
  if (word == "local" || word == "shared" || word == "param") {
    return ParseLocalVariables(SpaceNamed(word));
  }
  if (word == "pragma") return ParsePragma(static_cast<int>(function_->body.size()));
  return in_.Unsupported(fmt::format("directive .{} in a function", Quote(word)));
}

bool FunctionParser::DefineLabel(std::string_view name, LabelKind kind, int index) {
  if (!Spend(in_, &budget_->names, "names")) return false;
  const std::string_view unique = symbols_.Unique(name);
  if (!labels_.try_emplace({scopes_.back(), name}, LabelEntry{kind, index}).second) {
    return in_.Malformed(fmt::format("label '{}' is defined twice", Quote(name)));
  }
  if (kind == LabelKind::kCode) {
    function_->labels.push_back({std::string(unique), static_cast<int>(function_->body.size())});
  } else if (kind == LabelKind::kBranchTable) {
    function_->branch_table_names[index] = std::string(unique);
  } else {
    function_->prototypes[index].name = std::string(unique);
  }
  return true;
}

bool FunctionParser::ParseLabelled(std::string_view name) {
  if (in_.AcceptDot("branchtargets")) return ParseBranchTable(name);
  if (in_.AcceptDot("callprototype")) return ParsePrototype(name);
  if (in_.AtDot("calltargets")) return in_.Unsupported("directive .calltargets");
  return DefineLabel(name, LabelKind::kCode, static_cast<int>(function_->labels.size()));
}

const FunctionParser::LabelEntry* FunctionParser::FindLabel(const LabelUse& use) const {
  for (int scope = use.key.scope; scope >= 0; scope = scope_parents_[scope]) {
    const auto it = labels_.find({scope, use.key.name});
    if (it != labels_.end()) return it->second.kind == use.kind ? &it->second : nullptr;
  }
  return nullptr;
}

bool FunctionParser::ResolveLabels() {
  for (const LabelUse& use : label_uses_) {
    const LabelEntry* entry = FindLabel(use);
    if (entry == nullptr) {
      return in_.Malformed(fmt::format("label '{}' is not defined", Quote(use.key.name)), use.line);
    }
    if (use.instr < 0) {
      const Label& label = function_->labels[entry->index];
      function_->branch_tables[use.table][use.operand] = label.name;
      function_->branch_table_targets[use.table][use.operand] = label.index;
      continue;
    }
    Operand& operand = function_->body[use.instr].operands[use.operand];
    if (use.kind == LabelKind::kCode) {
      operand.symbol = function_->labels[entry->index].name;
      operand.target = function_->labels[entry->index].index;
    } else {
      operand.symbol = use.kind == LabelKind::kBranchTable
                           ? function_->branch_table_names[entry->index]
                           : function_->prototypes[entry->index].name;
      operand.target = entry->index;
    }
  }
  return true;
}

}  // namespace cupel::ptx
