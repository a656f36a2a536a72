// Typed representation of a PTX module as compilers print it: one Instr per instruction with
// its opcode, ordered modifiers, typed operands, guard and source location. The engines define the
// meaning. Reference: PTX ISA 8.x/9.x.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/modifiers.h"
#include "ptx/opcode.h"
#include "ptx/type.h"

namespace cupel::ptx {

/// A source position. `file` indexes Module::files (-1: unknown). `inlined_at` indexes
/// Module::inlined_sites (-1: not inlined), which leads from a line in an inlined function to its
/// call.
struct Location {
  int file = -1;
  int line = 0;
  int inlined_at = -1;
  int column = 0;

  bool operator==(const Location&) const = default;
};
struct InlinedSite {
  std::string function;  // mangled name of the inlined function, when given
  Location call;

  bool operator==(const InlinedSite&) const = default;
};

enum class OperandKind : uint8_t {
  kRegister,   // reg
  kImmediate,  // bits (integers sign-extended to 64 bits; floats as their own bits), imm_type
  kSymbol,     // symbol (+ offset): a variable, function or parameter as a value
  kSpecial,    // special register, symbol = "tid.x", "laneid", "clock64" …
  kAddress,    // [reg + offset], [symbol + offset], [offset]; the part after a comma in the
               // brackets (tensor coordinates: one kVector) is in elements
  kVector,     // {elements}
  kLabel,      // symbol = label; block target resolved in `target`
  kPair,       // a|b (setp, shfl): elements[0], elements[1]
  kSink,       // _
};

struct Operand {
  OperandKind kind = OperandKind::kRegister;
  bool negated = false;  // !p
  int reg = -1;          // index into Function::registers (kRegister; kAddress base, -1: none)
  uint64_t bits = 0;     // kImmediate
  Type imm_type = Type::kNone;  // kF32/kF64 for 0f…/0d… and decimal floats (kF64), else kS64/kU64
  std::string symbol;           // kSymbol, kSpecial, kLabel; kAddress base symbol
  int64_t offset = 0;           // kAddress, kSymbol
  /// kLabel: index into Function::body of the next instruction (body.size() is the end, an implicit
  /// return). kSymbol of brx.idx: index into branch_tables. Last kSymbol of a call: index into
  /// prototypes.
  int target = -1;
  std::vector<Operand> elements;

  bool operator==(const Operand&) const = default;
};

/// The operands of a call are always: kVector of result parameters (may be empty), callee (kSymbol
/// or kRegister), kVector of argument parameters (may be empty). Indirect calls add the prototype.
struct Instr {
  Opcode op = Opcode::kUnknown;
  Modifiers modifiers;  // in order
  Shape shape;          // if the modifiers have kShape
  /// The whole mnemonic as written, if a word of it is in no table; empty otherwise.
  std::string unknown;
  int guard = -1;  // predicate register, -1: none
  bool guard_negated = false;
  std::vector<Operand> operands;  // destination(s) first, as written
  Location location;
  int text_line = 0;  // line in the PTX text (after parsing; 0 otherwise)

  bool Has(Modifier modifier) const { return modifiers.Has(modifier); }
  ptx::Types Types() const { return TypesOf(modifiers); }
  /// "ld.global.nc.v4.f32"
  std::string Mnemonic() const;

  bool operator==(const Instr&) const = default;
};

struct Register {
  std::string name;  // "%r12"
  Type type = Type::kNone;

  bool operator==(const Register&) const = default;
};

enum class Linkage : uint8_t { kNone, kExtern, kVisible, kWeak, kCommon };

/// A variable in .global, .const, .shared, .local or .param space.
struct Variable {
  std::string name;
  Space space = Space::kNone;
  Type type = Type::kB8;
  int align = 0;
  uint64_t bytes = 0;  // whole size; 0 for `extern .shared x[]`
  bool is_extern = false;
  std::string initializer;  // raw little-endian bytes (may be shorter than `bytes`: rest zero)
  /// Initialised with the address of another symbol: 8 bytes at `at`.
  struct SymbolInit {
    uint64_t at;
    std::string symbol;
    int64_t offset;
    bool generic;
    bool operator==(const SymbolInit&) const = default;
  };
  std::vector<SymbolInit> symbol_inits;
  Linkage linkage = Linkage::kNone;
  bool managed = false;  // .attribute(.managed)

  bool operator==(const Variable&) const = default;
};

struct Param {
  std::string name;
  Type type = Type::kB8;
  int align = 1;
  uint32_t bytes = 0;       // 0: the arguments of a variadic function, "x[]"
  uint32_t offset = 0;      // in the kernel's parameter block
  bool is_pointer = false;  // .ptr was given, with the space and alignment of what it points to
  Space pointer_space = Space::kNone;
  int pointer_align = 0;  // 0: not given

  bool operator==(const Param&) const = default;
};

struct Label {
  std::string name;
  int index = 0;  // into Function::body

  bool operator==(const Label&) const = default;
};

/// .callprototype: the signature of an indirect call.
struct Prototype {
  std::string name;
  std::vector<Param> returns;
  std::vector<Param> params;
  bool noreturn = false;

  bool operator==(const Prototype&) const = default;
};

/// A .pragma. Inside a body it precedes body[index].
struct Pragma {
  int index = -1;
  std::string text;

  bool operator==(const Pragma&) const = default;
};

/// Names are unique within a function. Names that a nested scope declares again are renamed ("t",
/// "t$1" …), so that the registers, variables and labels of all scopes share one list.

struct Function {
  std::string name;  // mangled
  bool is_entry = false;
  bool is_declaration = false;
  std::vector<Param> params;
  std::vector<Param> returns;  // .func only
  std::vector<Register> registers;
  std::vector<Variable> variables;                      // .shared/.local/.param declared inside
  std::vector<Label> labels;                            // sorted by index
  std::vector<std::vector<std::string>> branch_tables;  // .branchtargets, referenced by brx.idx
  std::vector<std::string> branch_table_names;
  std::vector<std::vector<int>> branch_table_targets;  // the same, as indices into body
  std::vector<Prototype> prototypes;
  std::vector<Pragma> pragmas;
  std::vector<Instr> body;
  std::vector<int> max_ntid, req_ntid, min_nctapersm, cluster_dims;  // empty: not given
  int max_nreg = 0;
  uint32_t param_bytes = 0;  // whole parameter block of a kernel
  int text_line = 0;
  Linkage linkage = Linkage::kNone;
  bool noreturn = false;
  bool explicit_cluster = false;
  int max_cluster_rank = 0;  // 0: not given
  int variables_before = 0;  // how many of Module::variables precede it in the text

  bool operator==(const Function&) const = default;
};

/// .alias: another name of a function of the module.
struct Alias {
  std::string name;
  std::string target;

  bool operator==(const Alias&) const = default;
};

struct Module {
  int version_major = 0, version_minor = 0;
  std::string target;  // "sm_90a"
  std::vector<std::string> files;
  std::vector<InlinedSite> inlined_sites;
  std::vector<Variable> variables;  // module scope
  std::vector<Function> functions;
  std::vector<Alias> aliases;

  /// The definition with that name or alias, or its declaration, or null.
  const Function* Find(std::string_view name) const;

  bool operator==(const Module&) const = default;
};

}  // namespace cupel::ptx
