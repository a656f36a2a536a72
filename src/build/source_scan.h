// What the text of a candidate tells without compiling it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cupel::build {

/// `source` with comments, strings and characters blanked out, lines kept.
std::string CodeOnly(std::string_view source);

/// "uses inline assembly", "uses cuBLAS" …: legal, worth knowing.
std::vector<std::string> NotesFromSource(std::string_view source);

}  // namespace cupel::build
