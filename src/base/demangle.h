// Readable names of C++ symbols, also for symbols that a hostile program named.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cupel {

/// Returns "void foo<float, 4>(float const*)" for "_Z3foo…". Returns the name unchanged if it is
/// not mangled, is longer than 16 KiB, or expands to more than 64 KiB.
std::string Demangle(const std::string& mangled);

/// Shortens a demangled name for use in a sentence: "foo<float, 4>", without "void" and parameters.
/// If more than 100 bytes would be left, template arguments become "...".
std::string BriefName(const std::string& demangled);

}  // namespace cupel
