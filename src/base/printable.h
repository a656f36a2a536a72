// Makes external text (kernel names, compiler messages) safe to show. It must not move the
// terminal's cursor or hide text. Widths are counted in characters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cupel {

/// Replaces control characters and invalid UTF-8 with '?'. Control characters include line ends and
/// the start of escape sequences.
std::string Printable(std::string_view text);

/// Characters of printable UTF-8 text; each counts as one column.
int Width(std::string_view text);

/// Cuts `text` to at most `width` columns. If it cuts, the result ends in "…".
std::string Fit(std::string_view text, int width);

}  // namespace cupel
