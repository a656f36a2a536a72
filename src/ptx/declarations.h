// Parses what functions and the module share: variables with initialisers, parameters, signatures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ptx/ir.h"
#include "ptx/lexer.h"
#include "ptx/symbols.h"

namespace cupel::ptx {

/// What remains of the limits of one module.
struct Budget {
  uint64_t registers;
  uint64_t instrs;
  uint64_t operands;
  uint64_t modifiers;
  uint64_t names;
  uint64_t initializer_bytes;
};

/// Decrements a part of the budget, or records the error "too many `what`" and returns false.
bool Spend(TokenStream& in, uint64_t* budget, std::string_view what);

/// Parses what follows ".global", ".shared" …: attributes, type, and one or more names with
/// dimensions and initialisers, including the semicolon. `prefix` has space and linkage. `names`
/// receives the names as views into the text.
bool ParseVariables(TokenStream& in, const Variable& prefix, const SymbolTable& symbols,
                    Budget* budget, std::vector<Variable>* variables,
                    std::vector<std::string_view>* names);

/// Parses "(.param .u64 a, .param .align 8 .b8 b[24])" and assigns offsets by natural alignment.
/// `bytes` may be null.
bool ParseParams(TokenStream& in, std::vector<Param>* params, uint32_t* bytes);

/// Parses ".align N" if present.
bool ParseAlign(TokenStream& in, int* align);

}  // namespace cupel::ptx
