// Parts of the pictures for READMEs: SVG in light or dark colours, as the reader prefers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cupel::report {

/// Escapes text, and replaces what is not printable.
std::string Xml(std::string_view text);

/// The picture's beginning with its title at the top, to which the caller adds "</svg>\n". Styles
/// of text, .small, .grid and .one are defined; `style` adds others.
std::string SvgHead(double width, double height, std::string_view title, std::string_view style);

std::string TextAt(double x, double y, std::string_view attributes, std::string_view text);
std::string Line(std::string_view kind, double x1, double y1, double x2, double y2);

}  // namespace cupel::report
