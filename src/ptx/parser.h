// PTX text to ptx::Module, and back. The text is hostile: sizes and nesting are bounded, and every
// error is a value that names line and token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "ptx/ir.h"

namespace cupel::ptx {

/// kInvalidArgument for malformed text; kUnsupported for directives that are known and not handled.
Result<Module> Parse(std::string_view text);

/// Prints a module as PTX that parses to an equal module (tested by round trips).
std::string Print(const Module& module);
std::string Print(const Instr& instr, const Function& function);

/// "void foo<float, 4>(float const*)" for "_Z3foo…": the Itanium demangler of libstdc++.
std::string Demangle(const std::string& mangled);

}  // namespace cupel::ptx
