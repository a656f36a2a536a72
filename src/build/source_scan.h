// What the text of a candidate tells without compiling it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace cupel::build {

/// Whether `c` may be part of a name or number.
inline bool IsWordChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// `source` with comments, strings and characters blanked out, lines kept.
std::string CodeOnly(std::string_view source);
/// The same, but comments that begin with two slashes stay: what they say to cupel is no string's.
std::string CodeAndLineComments(std::string_view source);

/// "uses inline assembly", "uses cuBLAS" …: legal, worth knowing.
std::vector<std::string> NotesFromSource(std::string_view source);

/// "kernels read the GPU's clock (%clock64)" …: what makes a kernel's answer differ from call to
/// call where it is used for more than measuring.
std::vector<std::string> NotesFromPtx(std::string_view ptx);

/// What --use_fast_math has made of functions that the source calls by their accurate names, where
/// that costs more than float32's own rounding: "tanhf became tanh.approx (…)"; empty: nothing, or
/// no such flag. Bounds: PTX ISA, instructions tanh, sin, cos, lg2.
std::string FastMathNote(std::string_view source, std::string_view ptx,
                         const std::vector<std::string>& flags);

}  // namespace cupel::build
