// Facts that the text of a candidate shows without compiling it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace cupel::build {

/// True if `c` may be part of a name or number.
inline bool IsWordChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// `source` with comments, strings and characters blanked out; keeps line breaks.
std::string CodeOnly(std::string_view source);
/// The same, but keeps // comments: they may contain declarations for cupel, strings must not.
std::string CodeAndLineComments(std::string_view source);

/// "uses inline assembly", "uses cuBLAS" …: allowed, worth knowing.
std::vector<std::string> NotesFromSource(std::string_view source);

/// "kernels read the GPU's clock (%clock64)" …: registers that make results differ from call to
/// call if a kernel uses them for more than measuring.
std::vector<std::string> NotesFromPtx(std::string_view ptx);

/// Functions that the source calls by their accurate names and that --use_fast_math has replaced,
/// if that costs more than float32's own rounding: "tanhf became tanh.approx (…)". Empty if there
/// are none, or without the flag. `is_program`: a Python program, whose strings are the source, and
/// which sets its flags itself. Error bounds: PTX ISA, instructions tanh, sin, cos, lg2.
std::string FastMathNote(std::string_view source, std::string_view ptx,
                         const std::vector<std::string>& flags, bool is_program = false);

}  // namespace cupel::build
