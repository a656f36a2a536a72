// Text for terminals: what comes from outside (kernel names, compiler messages) must not move the
// cursor, and widths are counted in characters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cupel::report {

/// Control characters, among them line ends and escape sequences' starts, become '?'. Invalid UTF-8
/// too.
std::string Printable(std::string_view text);

/// Characters of printable UTF-8 text; each counts as one column.
int Width(std::string_view text);

/// At most `width` columns; what is cut is marked by "…".
std::string Fit(std::string_view text, int width);

/// "0.8 s", "42 s", "3 min 05 s", "2 h 10 min".
std::string Duration(double seconds);

}  // namespace cupel::report
