// PTX text to ptx::Module, and back. The text is untrusted: sizes and nesting are bounded, and
// every error is a value that names line and token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "ptx/ir.h"

namespace cupel::ptx {

/// kInvalidArgument for malformed text; kUnsupported for known directives that are not implemented.
Result<Module> Parse(std::string_view text);

/// Prints a module as PTX that parses to an equal module (round trips test this).
std::string Print(const Module& module);
std::string Print(const Instr& instr, const Function& function);

/// Turns "_Z3foo…" into "void foo<float, 4>(float const*)", with libstdc++'s Itanium demangler.
std::string Demangle(const std::string& mangled);

}  // namespace cupel::ptx
