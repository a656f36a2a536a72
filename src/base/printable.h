// What comes from outside (kernel names, compiler messages) made fit to be shown: it must not move
// a terminal's cursor or hide text, and widths are counted in characters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cupel {

/// Control characters, among them line ends and escape sequences' starts, become '?'. Invalid UTF-8
/// too.
std::string Printable(std::string_view text);

/// Characters of printable UTF-8 text; each counts as one column.
int Width(std::string_view text);

/// At most `width` columns; what is cut is marked by "…".
std::string Fit(std::string_view text, int width);

}  // namespace cupel
