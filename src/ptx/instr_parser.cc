// Instructions and operands: the part of FunctionParser that handles most of the text.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <bit>

#include "ptx/function_parser.h"
#include "ptx/limits.h"
#include "ptx/names.h"

namespace cupel::ptx {

bool FunctionParser::ParseStatement() {
  if (in_.current().kind == TokenKind::kDot) return ParseDotStatement();
  if (in_.current().kind == TokenKind::kIdentifier) {
    const std::string_view name = in_.current().text;
    const int line = in_.line();
    in_.Advance();
    if (in_.Accept(':')) return ParseLabelled(name);
    return ParseInstr(name, line, Instr{});
  }
  if (!in_.At('@')) return in_.Unexpected("a statement");
  Instr instr;
  const int line = in_.line();
  std::string_view op;
  return ParseGuard(&instr) && in_.ExpectIdentifier(&op, "an instruction") &&
         ParseInstr(op, line, std::move(instr));
}

bool FunctionParser::ParseGuard(Instr* instr) {
  in_.Advance();
  instr->guard_negated = in_.Accept('!');
  const std::string_view name = in_.current().text;
  const Symbol symbol =
      in_.current().kind == TokenKind::kIdentifier ? symbols_.Find(name) : Symbol{};
  if (symbol.kind != SymbolKind::kRegister ||
      function_->registers[symbol.reg].type != Type::kPred) {
    return in_.Unexpected("a predicate");
  }
  instr->guard = symbol.reg;
  in_.Advance();
  return true;
}

bool FunctionParser::ParseInstr(std::string_view op, int line, Instr instr) {
  if (!Spend(in_, &budget_->instrs, "instructions")) return false;
  instr.op = OpcodeNamed(op);
  instr.text_line = line;
  instr.location = locations_.current();
  if (!ParseModifiers(op, &instr)) return false;
  const bool ok = instr.op == Opcode::kCall ? ParseCall(&instr) : ParseOperands(&instr);
  if (!ok || !in_.Expect(';')) return false;
  function_->body.push_back(std::move(instr));
  return true;
}

bool FunctionParser::ParseModifiers(std::string_view op, Instr* instr) {
  if (instr->op == Opcode::kUnknown) instr->unknown = op;
  while (in_.current().kind == TokenKind::kDot) {
    if (instr->modifiers.size() >= kMaxModifiers) return in_.Malformed("too many modifiers");
    if (!Spend(in_, &budget_->modifiers, "modifiers")) return false;
    const std::string_view text = in_.current().text;
    Modifier modifier = ModifierNamed(text);
    if (const auto shape = ShapeNamed(text); shape && !instr->Has(Modifier::kShape)) {
      instr->shape = *shape;
      modifier = Modifier::kShape;
    }
    if (modifier == Modifier::kUnknown && instr->unknown.empty()) {
      instr->unknown = instr->Mnemonic();
    }
    if (!instr->unknown.empty()) instr->unknown.append(".").append(text);
    instr->modifiers.Add(modifier);
    in_.Advance();
  }
  return true;
}

void FunctionParser::UseLabel(LabelKind kind, std::string_view name, int line, size_t operand) {
  label_uses_.push_back({kind,
                         {scopes_.back(), name},
                         line,
                         static_cast<int>(function_->body.size()),
                         static_cast<int>(operand),
                         -1});
}

bool FunctionParser::ParseOperands(Instr* instr) {
  if (in_.At(';')) return true;
  const bool is_branch = instr->op == Opcode::kBra;
  const bool is_indexed = instr->op == Opcode::kBrx;
  instr->operands.reserve(4);
  do {
    Operand& operand = instr->operands.emplace_back();
    const size_t index = instr->operands.size() - 1;
    if ((is_branch && index == 0) || (is_indexed && index == 1)) {
      const int line = in_.line();
      std::string_view name;
      if (!SpendOperand() || !in_.ExpectIdentifier(&name, "a label")) return false;
      operand.kind = is_branch ? OperandKind::kLabel : OperandKind::kSymbol;
      UseLabel(is_branch ? LabelKind::kCode : LabelKind::kBranchTable, name, line, index);
    } else if (!ParseOperand(&operand)) {
      return false;
    }
  } while (in_.Accept(','));
  return true;
}

/// Parses "call (ret), callee, (params), prototype;". Everything but the callee is optional.
bool FunctionParser::ParseCall(Instr* instr) {
  instr->operands.resize(3);
  instr->operands[0].kind = OperandKind::kVector;
  instr->operands[2].kind = OperandKind::kVector;
  if (in_.At('(') && (!ParseCallParams(&instr->operands[0]) || !in_.Expect(','))) return false;
  if (!ParseSimple(&instr->operands[1])) return false;
  if (instr->operands[1].kind != OperandKind::kSymbol &&
      instr->operands[1].kind != OperandKind::kRegister) {
    return in_.Malformed("the callee is neither a function nor a register");
  }
  if (!in_.Accept(',')) return true;
  if (in_.At('(')) {
    if (!ParseCallParams(&instr->operands[2])) return false;
    if (!in_.Accept(',')) return true;
  }
  const int line = in_.line();
  std::string_view name;
  if (!SpendOperand() || !in_.ExpectIdentifier(&name, "a prototype")) return false;
  instr->operands.emplace_back().kind = OperandKind::kSymbol;
  UseLabel(LabelKind::kPrototype, name, line, 3);
  return true;
}

bool FunctionParser::ParseCallParams(Operand* operand) {
  if (!in_.Expect('(')) return false;
  if (in_.Accept(')')) return true;
  do {
    if (operand->elements.size() >= kMaxParams) return in_.Malformed("too many arguments");
    if (!ParseScalar(&operand->elements.emplace_back())) return false;
  } while (in_.Accept(','));
  return in_.Expect(')');
}

bool FunctionParser::ParseOperand(Operand* operand) {
  if (in_.At('[')) return ParseAddress(operand);
  if (in_.At('{') ? !ParseVector(operand) : !ParseSimple(operand)) return false;
  if (!in_.Accept('|')) return true;
  Operand first = std::move(*operand);
  *operand = Operand{};
  operand->kind = OperandKind::kPair;
  operand->elements.push_back(std::move(first));
  return ParseScalar(&operand->elements.emplace_back());
}

bool FunctionParser::ParseVector(Operand* operand) {
  in_.Advance();
  operand->kind = OperandKind::kVector;
  if (!SpendOperand()) return false;
  if (in_.Accept('}')) return true;
  do {
    if (operand->elements.size() >= kMaxVectorElements) return in_.Malformed("vector too long");
    if (!ParseScalar(&operand->elements.emplace_back())) return false;
  } while (in_.Accept(','));
  return in_.Expect('}');
}

/// Parses what a vector may contain.
bool FunctionParser::ParseScalar(Operand* operand) {
  if (!ParseSimple(operand)) return false;
  return operand->kind != OperandKind::kVector || in_.Malformed("a vector where one value belongs");
}

/// Parses a number, name or sink, possibly negated.
bool FunctionParser::ParseSimple(Operand* operand) {
  if (!SpendOperand()) return false;
  operand->negated = in_.Accept('!');
  if (in_.current().kind == TokenKind::kIdentifier) return ParseName(operand);
  if (operand->negated) return in_.Unexpected("a predicate");
  return ParseNumber(operand);
}

bool FunctionParser::ParseNumber(Operand* operand) {
  const bool negative = in_.Accept('-');
  const Token& token = in_.current();
  if (token.kind != TokenKind::kInteger && token.kind != TokenKind::kFloat) {
    return in_.Unexpected("an operand");
  }
  operand->kind = OperandKind::kImmediate;
  operand->bits = token.bits;
  operand->imm_type = token.imm_type;
  if (negative && token.kind == TokenKind::kInteger) {
    operand->bits = 0 - token.bits;
    operand->imm_type = Type::kS64;
  } else if (negative) {
    operand->bits ^= uint64_t{1} << (token.imm_type == Type::kF32 ? 31 : 63);
  }
  in_.Advance();
  return true;
}

bool FunctionParser::ParseName(Operand* operand) {
  const std::string_view name = in_.current().text;
  const int line = in_.line();
  const Symbol symbol = symbols_.Find(name);
  in_.Advance();
  if (symbol.kind == SymbolKind::kRegister) {
    operand->kind = OperandKind::kRegister;
    operand->reg = symbol.reg;
    if (in_.current().kind == TokenKind::kDot) return in_.Unsupported("a part of a register");
    return true;
  }
  if (operand->negated) return in_.Malformed("only a predicate can be negated", line);
  if (symbol.kind == SymbolKind::kVector) return ParsePart(symbol, operand);
  if (symbol.kind != SymbolKind::kNone) {
    operand->kind = OperandKind::kSymbol;
    operand->symbol = std::string(symbol.name);
    return ParseOffset(&operand->offset);
  }
  if (name == "_") {
    operand->kind = OperandKind::kSink;
    return true;
  }
  if (name == "WARP_SZ") {
    operand->kind = OperandKind::kImmediate;
    operand->bits = 32;
    operand->imm_type = Type::kS64;
    return true;
  }
  if (name.starts_with('%')) {
    std::string special(name.substr(1));
    if (in_.current().kind == TokenKind::kDot) {
      special += '.';
      special += in_.current().text;
      in_.Advance();
    }
    if (IsSpecialRegister(special)) {
      operand->kind = OperandKind::kSpecial;
      operand->symbol = std::move(special);
      return true;
    }
  }
  return in_.Malformed(fmt::format("'{}' is not declared", Quote(name)), line);
}

/// Parses what follows the name of a vector register: ".x" … ".w", ".r" … ".a", or nothing.
bool FunctionParser::ParsePart(const Symbol& vector, Operand* operand) {
  if (in_.current().kind == TokenKind::kDot) {
    const std::string_view part = in_.current().text;
    const size_t at =
        part.size() == 1 ? std::string_view("xyzwrgba").find(part) : std::string::npos;
    if (at == std::string::npos || static_cast<int>(at % 4) >= vector.width) {
      return in_.Unexpected("an element of the vector");
    }
    operand->kind = OperandKind::kRegister;
    operand->reg = vector.reg + static_cast<int>(at % 4);
    in_.Advance();
    return true;
  }
  operand->kind = OperandKind::kVector;
  for (int i = 0; i < vector.width; ++i) {
    if (!SpendOperand()) return false;
    Operand& element = operand->elements.emplace_back();
    element.kind = OperandKind::kRegister;
    element.reg = vector.reg + i;
  }
  return true;
}

bool FunctionParser::ParseOffset(int64_t* offset) {
  if (in_.At('-')) return in_.ExpectSigned(offset, "an offset");
  return !in_.Accept('+') || in_.ExpectSigned(offset, "an offset");
}

bool FunctionParser::ParseAddress(Operand* operand) {
  in_.Advance();
  Operand base;
  if (in_.current().kind == TokenKind::kIdentifier) {
    if (!ParseSimple(&base)) return false;
    if (base.kind != OperandKind::kRegister && base.kind != OperandKind::kSymbol) {
      return in_.Malformed("an address begins with a register, a variable or a number");
    }
    operand->reg = base.reg;
    operand->symbol = std::move(base.symbol);
    operand->offset = base.offset;
    if (base.kind == OperandKind::kRegister && !ParseOffset(&operand->offset)) return false;
  } else if (!SpendOperand() || !in_.ExpectSigned(&operand->offset, "an address")) {
    return false;
  }
  operand->kind = OperandKind::kAddress;
  while (in_.Accept(',')) {
    if (operand->elements.size() >= kMaxVectorElements) return in_.Malformed("address too long");
    Operand& element = operand->elements.emplace_back();
    if (in_.At('{') ? !ParseVector(&element) : !ParseSimple(&element)) return false;
  }
  return in_.Expect(']');
}

}  // namespace cupel::ptx
