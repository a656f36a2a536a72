// SPDX-License-Identifier: Apache-2.0
#include "ptx/declarations.h"

#include <fmt/format.h>

#include <bit>

#include "ptx/limits.h"
#include "ptx/names.h"

namespace cupel::ptx {
namespace {

bool ParseType(TokenStream& in, Type* type) {
  *type = in.current().kind == TokenKind::kDot ? TypeNamed(in.current().text) : Type::kNone;
  if (SizeOf(*type) == 0) return in.Unexpected("a type");
  in.Advance();
  return true;
}

/// Parses "[4][8]", or "[]" (0 elements). Multiplies `count` by the extents.
bool ParseDimensions(TokenStream& in, uint64_t* count) {
  bool is_first = true;
  while (in.Accept('[')) {
    if (is_first && in.Accept(']')) {
      *count = 0;
      is_first = false;
      continue;
    }
    uint64_t extent = 0;
    if (!in.ExpectInteger(kMaxVariableBytes, &extent, "an extent") || !in.Expect(']')) return false;
    if (extent > 0 && *count > kMaxVariableBytes / extent) return in.Malformed("array too large");
    *count *= extent;
    is_first = false;
  }
  return true;
}

/// Reads "{…}" or a single value into the bytes of one variable.
class InitializerParser {
 public:
  InitializerParser(TokenStream& in, const SymbolTable& symbols, Budget* budget, Variable* variable)
      : in_(in), symbols_(symbols), budget_(budget), variable_(variable) {}

  bool Parse() {
    if (!in_.Accept('{')) return Element() && Complete();
    if (in_.Accept('}')) return true;
    do {
      if (in_.At('{')) return in_.Unsupported("nested initialisers are not supported");
      if (!Element()) return false;
    } while (in_.Accept(','));
    return in_.Expect('}') && Complete();
  }

 private:
  bool Complete() {
    if (masked_bytes_ != 0) return in_.Unsupported("an address of fewer than 8 bytes");
    if (variable_->initializer.size() > variable_->bytes) {
      return in_.Malformed("the initialiser is longer than the variable");
    }
    return true;
  }

  bool Append(uint64_t value, int bytes) {
    if (budget_->initializer_bytes < static_cast<uint64_t>(bytes)) {
      return in_.Malformed("the initialisers are too long");
    }
    budget_->initializer_bytes -= static_cast<uint64_t>(bytes);
    for (int i = 0; i < bytes; ++i) {
      variable_->initializer += static_cast<char>(i < 8 ? value >> (8 * i) & 0xFF : 0);
    }
    return true;
  }

  bool Element() {
    const int size = SizeOf(variable_->type);
    const bool negative = in_.Accept('-');
    if (in_.current().kind == TokenKind::kFloat) {
      return Float(negative);
    }
    if (in_.current().kind == TokenKind::kIdentifier) {
      if (negative) return in_.Unexpected("a number");
      Variable::SymbolInit init;
      if (!Address(&init)) return false;
      if (size != 8) return in_.Unsupported("an address of fewer than 8 bytes");
      return AppendAddress(std::move(init));
    }
    uint64_t value = 0;
    if (!in_.ExpectInteger(~uint64_t{0}, &value, "a value")) return false;
    if (in_.At('(')) return MaskedByte(value);
    if (negative) value = 0 - value;
    if (variable_->type == Type::kF32) {
      value = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int64_t>(value)));
    } else if (variable_->type == Type::kF64) {
      value = std::bit_cast<uint64_t>(static_cast<double>(static_cast<int64_t>(value)));
    }
    return Append(value, size);
  }

  bool Float(bool negative) {
    const bool is_single = in_.current().imm_type == Type::kF32;
    const uint64_t bits = in_.current().bits;
    in_.Advance();
    const int size = SizeOf(variable_->type);
    if (is_single && size == 4) return Append(bits ^ (negative ? uint64_t{1} << 31 : 0), size);
    double value =
        is_single ? std::bit_cast<float>(static_cast<uint32_t>(bits)) : std::bit_cast<double>(bits);
    if (negative) value = -value;
    if (variable_->type == Type::kF32) {
      return Append(std::bit_cast<uint32_t>(static_cast<float>(value)), size);
    }
    if (size != 8) return in_.Malformed("a floating-point value for an integer variable");
    return Append(std::bit_cast<uint64_t>(value), size);
  }

  /// "sym", "sym+4", "generic(sym)", "generic(sym)+4", "generic(sym+4)".
  bool Address(Variable::SymbolInit* init) {
    std::string_view name;
    if (!in_.ExpectIdentifier(&name, "a symbol")) return false;
    init->at = variable_->initializer.size();
    init->generic = name == "generic" && in_.Accept('(');
    init->offset = 0;
    if (init->generic && !in_.ExpectIdentifier(&name, "a symbol")) return false;
    if (!Offset(init) || (init->generic && (!in_.Expect(')') || !Offset(init)))) return false;
    // A variable may hold its own address.
    if (name != variable_->name && symbols_.Find(name).kind == SymbolKind::kNone) {
      return in_.Malformed(fmt::format("'{}' is not declared", Quote(name)));
    }
    init->symbol = std::string(name);
    return true;
  }

  bool Offset(Variable::SymbolInit* init) {
    if (!in_.At('+') && !in_.At('-')) return true;
    in_.Accept('+');
    return in_.ExpectSigned(&init->offset, "an offset");
  }

  bool AppendAddress(Variable::SymbolInit init) {
    variable_->symbol_inits.push_back(std::move(init));
    return Append(0, 8);
  }

  /// "0xFF00(generic(sym))" is byte 1 of an address. The 8 bytes must follow each other in order.
  bool MaskedByte(uint64_t mask) {
    Variable::SymbolInit init;
    if (!in_.Expect('(') || !Address(&init) || !in_.Expect(')')) return false;
    if (SizeOf(variable_->type) != 1 || mask != uint64_t{0xFF} << (8 * masked_bytes_)) {
      return in_.Unsupported("a part of an address");
    }
    if (masked_bytes_ == 0) {
      variable_->symbol_inits.push_back(std::move(init));
    } else {
      const auto& first = variable_->symbol_inits.back();
      if (first.at + masked_bytes_ != init.at || first.symbol != init.symbol ||
          first.offset != init.offset || first.generic != init.generic) {
        return in_.Unsupported("a part of an address");
      }
    }
    masked_bytes_ = (masked_bytes_ + 1) % 8;
    return Append(0, 1);
  }

  TokenStream& in_;
  const SymbolTable& symbols_;
  Budget* budget_;
  Variable* variable_;
  uint64_t masked_bytes_ = 0;
};

bool ParseAttributes(TokenStream& in, Variable* variable) {
  if (!in.Expect('(')) return false;
  do {
    if (in.AcceptDot("managed")) {
      variable->managed = true;
    } else {
      return in.Unsupported(fmt::format("attribute .{}", Quote(in.current().text)));
    }
  } while (in.Accept(','));
  return in.Expect(')');
}

/// Parses ".ptr .global .align 16", which follows the parameter's type.
bool ParsePointer(TokenStream& in, Param* param) {
  if (!in.AcceptDot("ptr")) return true;
  param->is_pointer = true;
  if (in.current().kind == TokenKind::kDot) {
    param->pointer_space = SpaceNamed(in.current().text);
    if (param->pointer_space != Space::kNone) in.Advance();
  }
  return ParseAlign(in, &param->pointer_align);
}

bool ParseParam(TokenStream& in, Param* param) {
  if (in.AtDot("reg")) return in.Unsupported("parameters in registers");
  if (!in.ExpectDot("param")) return false;
  int align = 0;
  std::string_view name;
  if (!ParseAlign(in, &align) || !ParseType(in, &param->type) || !ParsePointer(in, param)) {
    return false;
  }
  if (align == 0 && !ParseAlign(in, &align)) return false;
  if (!in.ExpectIdentifier(&name, "a parameter's name")) return false;
  param->name = std::string(name);
  param->align = align > 0 ? align : SizeOf(param->type);
  if (in.At('[')) {
    uint64_t count = 1;
    if (!ParseDimensions(in, &count)) return false;
    if (count > kMaxParamBytes / SizeOf(param->type)) return in.Malformed("parameter too large");
    param->bytes = static_cast<uint32_t>(count) * static_cast<uint32_t>(SizeOf(param->type));
  } else {
    param->bytes = static_cast<uint32_t>(SizeOf(param->type));
  }
  return true;
}

}  // namespace

bool Spend(TokenStream& in, uint64_t* budget, std::string_view what) {
  if (*budget == 0) return in.Malformed(fmt::format("too many {}", what));
  --*budget;
  return true;
}

bool ParseAlign(TokenStream& in, int* align) {
  if (!in.AcceptDot("align")) return true;
  uint64_t value = 0;
  if (!in.ExpectInteger(kMaxAlign, &value, "an alignment")) return false;
  if (!std::has_single_bit(value)) return in.Malformed("the alignment is not a power of two");
  *align = static_cast<int>(value);
  return true;
}

bool ParseVariables(TokenStream& in, const Variable& prefix, const SymbolTable& symbols,
                    Budget* budget, std::vector<Variable>* variables,
                    std::vector<std::string_view>* names) {
  Variable variable = prefix;
  variable.is_extern = variable.linkage == Linkage::kExtern;
  if (in.AcceptDot("attribute") && !ParseAttributes(in, &variable)) return false;
  if (!ParseAlign(in, &variable.align)) return false;
  uint64_t width = 1;
  if (in.AcceptDot("v2")) width = 2;
  if (in.AcceptDot("v4")) width = 4;
  if (!ParseType(in, &variable.type)) return false;
  if (variable.align == 0) variable.align = static_cast<int>(width) * SizeOf(variable.type);
  do {
    if (!Spend(in, &budget->names, "names")) return false;
    Variable& added = variables->emplace_back(variable);
    std::string_view name;
    if (!in.ExpectIdentifier(&name, "a variable's name")) return false;
    added.name = std::string(name);
    names->push_back(name);
    uint64_t count = width;
    if (!ParseDimensions(in, &count)) return false;
    if (count > kMaxVariableBytes / SizeOf(added.type)) return in.Malformed("array too large");
    added.bytes = count * static_cast<uint64_t>(SizeOf(added.type));
    if (in.Accept('=') && !InitializerParser(in, symbols, budget, &added).Parse()) return false;
  } while (in.Accept(','));
  return in.Expect(';');
}

bool ParseParams(TokenStream& in, std::vector<Param>* params, uint32_t* bytes) {
  uint32_t end = 0;
  if (!in.Expect('(')) return false;
  if (!in.Accept(')')) {
    do {
      if (params->size() >= kMaxParams) return in.Malformed("too many parameters");
      Param& param = params->emplace_back();
      if (!ParseParam(in, &param)) return false;
      const auto align = static_cast<uint32_t>(param.align);
      param.offset = (end + align - 1) / align * align;
      end = param.offset + param.bytes;
      if (end > 4 * kMaxParamBytes) return in.Malformed("the parameters are too large");
    } while (in.Accept(','));
    if (!in.Expect(')')) return false;
  }
  if (bytes != nullptr) *bytes = end;
  return true;
}

}  // namespace cupel::ptx
