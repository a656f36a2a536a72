// Parses variables with their initialisers, parameters, and signatures: what functions and the
// module share. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ptx/ir.h"
#include "ptx/lexer.h"
#include "ptx/symbols.h"

namespace cupel::ptx {

/// What is left of the limits of one module.
struct Budget {
  uint64_t registers;
  uint64_t instrs;
  uint64_t operands;
  uint64_t modifiers;
  uint64_t names;
  uint64_t initializer_bytes;
};

/// Takes one from a part of the budget, or records that there are too many `what`.
bool Spend(TokenStream& in, uint64_t* budget, std::string_view what);

/// After ".global", ".shared" …: attributes, type, and one or more names with dimensions and
/// initialisers, up to and including the semicolon. `prefix` holds space and linkage. `names` gets
/// the names as views into the text.
bool ParseVariables(TokenStream& in, const Variable& prefix, const SymbolTable& symbols,
                    Budget* budget, std::vector<Variable>* variables,
                    std::vector<std::string_view>* names);

/// "(.param .u64 a, .param .align 8 .b8 b[24])", with offsets by natural alignment; `bytes` may be
/// null.
bool ParseParams(TokenStream& in, std::vector<Param>* params, uint32_t* bytes);

/// ".align N" if it is there.
bool ParseAlign(TokenStream& in, int* align);

}  // namespace cupel::ptx
