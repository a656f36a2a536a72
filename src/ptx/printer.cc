// Prints the IR as nvcc does. All declarations are at the head of the body, because the IR has no
// nested scopes and names are unique within a function.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstring>
#include <iterator>

#include "ptx/location_printer.h"
#include "ptx/names.h"
#include "ptx/parser.h"
#include "ptx/symbols.h"

namespace cupel::ptx {
namespace {

template <typename... Args>
void Append(std::string* out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(*out), format, std::forward<Args>(args)...);
}

void PrintOffset(int64_t offset, std::string* out) {
  if (offset != 0) Append(out, "+{}", offset);  // "+-4": ptxas accepts no other form
}

void PrintImmediate(const Operand& operand, std::string* out) {
  switch (operand.imm_type) {
    case Type::kF32:
      Append(out, "0f{:08X}", static_cast<uint32_t>(operand.bits));
      return;
    case Type::kF64:
      Append(out, "0d{:016X}", operand.bits);
      return;
    case Type::kU64:
      Append(out, "{}{}", operand.bits, operand.bits >> 63 != 0 ? "" : "U");
      return;
    default:
      Append(out, "{}", static_cast<int64_t>(operand.bits));
  }
}

/// Elements do not nest: vectors and pairs contain simple operands, addresses also vectors.
void PrintOperand(const Operand& operand, const Function& function, std::string* out);

void PrintList(const std::vector<Operand>& operands, const Function& function,
               const char* separator, std::string* out) {
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i > 0) *out += separator;
    PrintOperand(operands[i], function, out);
  }
}

void PrintAddress(const Operand& operand, const Function& function, std::string* out) {
  *out += '[';
  if (operand.reg >= 0) {
    *out += function.registers[operand.reg].name;
    PrintOffset(operand.offset, out);
  } else if (!operand.symbol.empty()) {
    *out += operand.symbol;
    PrintOffset(operand.offset, out);
  } else {
    Append(out, "{}", operand.offset);
  }
  if (!operand.elements.empty()) *out += ", ";
  PrintList(operand.elements, function, ", ", out);
  *out += ']';
}

void PrintOperand(const Operand& operand, const Function& function, std::string* out) {
  if (operand.negated) *out += '!';
  switch (operand.kind) {
    case OperandKind::kRegister:
      *out += function.registers[operand.reg].name;
      return;
    case OperandKind::kImmediate:
      return PrintImmediate(operand, out);
    case OperandKind::kSymbol:
      *out += operand.symbol;
      return PrintOffset(operand.offset, out);
    case OperandKind::kSpecial:
      *out += '%';
      *out += operand.symbol;
      return;
    case OperandKind::kAddress:
      return PrintAddress(operand, function, out);
    case OperandKind::kVector:
      *out += '{';
      PrintList(operand.elements, function, ", ", out);
      *out += '}';
      return;
    case OperandKind::kLabel:
      *out += operand.symbol;
      return;
    case OperandKind::kPair:
      return PrintList(operand.elements, function, "|", out);
    case OperandKind::kSink:
      *out += '_';
      return;
  }
}

void PrintCall(const Instr& instr, const Function& function, std::string* out) {
  const auto& operands = instr.operands;
  if (operands.size() < 3) return PrintList(operands, function, ", ", out);
  if (!operands[0].elements.empty()) {
    *out += '(';
    PrintList(operands[0].elements, function, ", ", out);
    *out += "), ";
  }
  PrintOperand(operands[1], function, out);
  if (!operands[2].elements.empty() || operands.size() > 3) {
    *out += ", (";
    PrintList(operands[2].elements, function, ", ", out);
    *out += ')';
  }
  if (operands.size() > 3) *out += ", " + operands[3].symbol;
}

void PrintInstr(const Instr& instr, const Function& function, std::string* out) {
  if (instr.guard >= 0) {
    Append(out, "@{}{} ", instr.guard_negated ? "!" : "", function.registers[instr.guard].name);
  }
  *out += instr.Mnemonic();
  if (!instr.operands.empty()) *out += " \t";
  if (instr.op == Opcode::kCall) {
    PrintCall(instr, function, out);
  } else {
    PrintList(instr.operands, function, ", ", out);
  }
  *out += ';';
}

void PrintAddressInit(const Variable::SymbolInit& init, std::string* out) {
  Append(out, "{}{}{}", init.generic ? "generic(" : "", init.symbol, init.generic ? ")" : "");
  PrintOffset(init.offset, out);
}

void PrintValue(const Variable& variable, size_t at, size_t size, std::string* out) {
  uint64_t value = 0;
  const size_t bytes = std::min({size, sizeof value, variable.initializer.size() - at});
  std::memcpy(&value, variable.initializer.data() + at, bytes);
  if (variable.type == Type::kF32) {
    Append(out, "0f{:08X}", value);
  } else if (variable.type == Type::kF64) {
    Append(out, "0d{:016X}", value);
  } else {
    Append(out, "{}", value);
  }
}

/// Prints the eight bytes of an address in an array of bytes.
void PrintMaskedBytes(const Variable::SymbolInit& init, std::string* out) {
  for (int byte = 0; byte < 8; ++byte) {
    if (byte > 0) *out += ", ";
    Append(out, "0xFF{}(", std::string(static_cast<size_t>(2 * byte), '0'));
    PrintAddressInit(init, out);
    *out += ')';
  }
}

void PrintInitializer(const Variable& variable, std::string* out) {
  const auto size = static_cast<size_t>(SizeOf(variable.type));
  const bool is_scalar = variable.bytes == size;
  *out += is_scalar ? " = " : " = {";
  size_t next = 0;
  for (size_t at = 0; at < variable.initializer.size();) {
    if (at > 0) *out += ", ";
    const auto& inits = variable.symbol_inits;
    if (next < inits.size() && inits[next].at == at) {
      const auto& init = inits[next++];
      size == 1 ? PrintMaskedBytes(init, out) : PrintAddressInit(init, out);
      at += 8;
    } else {
      PrintValue(variable, at, size, out);
      at += size;
    }
  }
  if (!is_scalar) *out += '}';
}

void PrintVariable(const Variable& variable, std::string* out) {
  if (variable.linkage != Linkage::kNone) Append(out, ".{} ", Name(variable.linkage));
  Append(out, ".{} ", Name(variable.space));
  if (variable.managed) *out += ".attribute(.managed) ";
  Append(out, ".align {} .{} {}", variable.align, Name(variable.type), variable.name);
  const auto size = static_cast<uint64_t>(SizeOf(variable.type));
  if (variable.bytes == 0) {
    *out += "[]";
  } else if (variable.bytes != size) {
    Append(out, "[{}]", variable.bytes / size);
  }
  if (!variable.initializer.empty()) PrintInitializer(variable, out);
  *out += ";\n";
}

void PrintParam(const Param& param, std::string* out) {
  const auto size = static_cast<uint32_t>(SizeOf(param.type));
  *out += ".param ";
  if (static_cast<uint32_t>(param.align) != size) Append(out, ".align {} ", param.align);
  Append(out, ".{} ", Name(param.type));
  if (param.is_pointer) {
    *out += ".ptr ";
    if (param.pointer_space != Space::kNone) Append(out, ".{} ", Name(param.pointer_space));
    if (param.pointer_align > 0) Append(out, ".align {} ", param.pointer_align);
  }
  *out += param.name;
  if (param.bytes == 0) {
    *out += "[]";
  } else if (param.bytes != size) {
    Append(out, "[{}]", param.bytes / size);
  }
}

void PrintParams(const std::vector<Param>& params, const char* separator, std::string* out) {
  *out += '(';
  for (size_t i = 0; i < params.size(); ++i) {
    *out += i > 0 ? "," : "";
    *out += separator;
    PrintParam(params[i], out);
  }
  *out += ')';
}

void PrintDimensions(const char* name, const std::vector<int>& dimensions, std::string* out) {
  for (size_t i = 0; i < dimensions.size(); ++i) {
    Append(out, "{}{}", i == 0 ? fmt::format(".{} ", name) : ", ", dimensions[i]);
  }
  if (!dimensions.empty()) *out += '\n';
}

void PrintHeader(const Function& function, std::string* out) {
  if (function.linkage != Linkage::kNone) Append(out, ".{} ", Name(function.linkage));
  *out += function.is_entry ? ".entry " : ".func ";
  if (!function.returns.empty()) PrintParams(function.returns, "", out);
  if (!function.returns.empty()) *out += ' ';
  *out += function.name;
  PrintParams(function.params, "\n\t", out);
  *out += '\n';
  PrintDimensions("maxntid", function.max_ntid, out);
  PrintDimensions("reqntid", function.req_ntid, out);
  PrintDimensions("minnctapersm", function.min_nctapersm, out);
  PrintDimensions("reqnctapercluster", function.cluster_dims, out);
  if (function.explicit_cluster) *out += ".explicitcluster\n";
  if (function.max_cluster_rank > 0) Append(out, ".maxclusterrank {}\n", function.max_cluster_rank);
  if (function.max_nreg > 0) Append(out, ".maxnreg {}\n", function.max_nreg);
  if (function.noreturn) *out += ".noreturn\n";
}

/// Prints registers of one type whose names count up from zero as one range, e.g. "%r<17>".
void PrintRegisters(const std::vector<Register>& registers, std::string* out) {
  for (size_t i = 0; i < registers.size();) {
    const NumberedName first = SplitNumber(registers[i].name);
    size_t count = 1;
    if (first.number == 0) {
      while (i + count < registers.size() && registers[i + count].type == registers[i].type) {
        const NumberedName next = SplitNumber(registers[i + count].name);
        if (next.stem != first.stem || next.number != static_cast<int64_t>(count)) break;
        ++count;
      }
    }
    Append(out, "\t.reg .{} \t", Name(registers[i].type));
    if (count > 1) {
      Append(out, "{}<{}>;\n", first.stem, count);
    } else {
      Append(out, "{};\n", registers[i].name);
    }
    i += count;
  }
}

void PrintDeclarations(const Function& function, std::string* out) {
  for (const Variable& variable : function.variables) {
    *out += '\t';
    PrintVariable(variable, out);
  }
  PrintRegisters(function.registers, out);
  for (const Prototype& prototype : function.prototypes) {
    Append(out, "\t{} : .callprototype ", prototype.name);
    if (!prototype.returns.empty()) PrintParams(prototype.returns, "", out);
    *out += " _ ";
    PrintParams(prototype.params, "", out);
    *out += prototype.noreturn ? " .noreturn;\n" : ";\n";
  }
  for (size_t i = 0; i < function.branch_tables.size(); ++i) {
    Append(out, "\t{}: .branchtargets", function.branch_table_names[i]);
    const auto& table = function.branch_tables[i];
    for (size_t j = 0; j < table.size(); ++j) Append(out, "{} {}", j > 0 ? "," : "", table[j]);
    *out += ";\n";
  }
}

void PrintBody(const Function& function, LocationPrinter* locations, std::string* out) {
  *out += "{\n";
  PrintDeclarations(function, out);
  locations->EnterFunction();
  auto label = function.labels.begin();
  auto pragma = function.pragmas.begin();
  const int size = static_cast<int>(function.body.size());
  for (int i = 0; i <= size; ++i) {
    for (; label != function.labels.end() && label->index == i; ++label) {
      Append(out, "\n{}:\n", label->name);
    }
    for (; pragma != function.pragmas.end() && pragma->index <= i; ++pragma) {
      if (pragma->index == i) Append(out, "\t.pragma \"{}\";\n", pragma->text);
    }
    if (i == size) break;
    locations->PrintLoc(function.body[i].location, out);
    *out += '\t';
    PrintInstr(function.body[i], function, out);
    *out += '\n';
  }
  *out += "}\n";
}

}  // namespace

std::string Print(const Instr& instr, const Function& function) {
  std::string out;
  PrintInstr(instr, function, &out);
  return out;
}

std::string Print(const Module& module) {
  std::string out = fmt::format(".version {}.{}\n.target {}\n.address_size 64\n\n",
                                module.version_major, module.version_minor, module.target);
  LocationPrinter locations(module);
  size_t variable = 0;
  for (const Function& function : module.functions) {
    for (; static_cast<int>(variable) < function.variables_before; ++variable) {
      PrintVariable(module.variables[variable], &out);
    }
    PrintHeader(function, &out);
    for (const Pragma& pragma : function.pragmas) {
      if (pragma.index < 0) Append(&out, ".pragma \"{}\";\n", pragma.text);
    }
    if (function.is_declaration) {
      out += ";\n";
    } else {
      PrintBody(function, &locations, &out);
    }
  }
  for (; variable < module.variables.size(); ++variable) {
    PrintVariable(module.variables[variable], &out);
  }
  for (const Alias& alias : module.aliases) {
    Append(&out, ".alias {}, {};\n", alias.name, alias.target);
  }
  locations.PrintFiles(&out);
  locations.PrintNames(&out);
  return out;
}

}  // namespace cupel::ptx
