// Readable names of C++ symbols, also for symbols that a hostile program named.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cupel {

/// "void foo<float, 4>(float const*)" for "_Z3foo…"; the name itself when it is not a mangled one
/// or stands for more than 64 KiB.
std::string Demangle(const std::string& mangled);

/// A demangled name for a sentence: "foo<float, 4>", without "void" and parameters; what lies in
/// angle brackets becomes "..." where more than 100 bytes would be left.
std::string BriefName(const std::string& demangled);

}  // namespace cupel
