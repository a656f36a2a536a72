// Prepares a Python program for a reviewer, as neutral.h does for a kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cupel::review {

/// Returns `source` with the same number of lines, in which
///  - comments are blanks,
///  - strings with C++ or CUDA code (for load_inline) contain that code, neutralised as a kernel
///  is,
///  - other strings are kWithheld, except a single short word ("fused", "cuda", "-O3"),
///  - bytes that are not printable ASCII are `?`.
/// Accepts any text. Unterminated strings end at the end of their line or of the file. What names
/// say stays, because they are the code.
std::string NeutralisedPython(std::string_view source);

}  // namespace cupel::review
