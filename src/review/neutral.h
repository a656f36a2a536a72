// Prepares a kernel's source for a reviewer: removes text that could address the reviewer. Removes
// comments, the contents of strings, and code that is never compiled. Keeps line numbers and the
// meaning of the code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cupel::review {

/// Replaces the content of strings.
inline constexpr std::string_view kWithheld = "\"...\"";

/// Returns `source` with the same number of lines, in which
///  - comments are blanks (including comments on spliced lines and in the PTX of inline assembly),
///  - strings are kWithheld, except binding names ("forward", extern "C"), plain include paths, and
///    the PTX of inline assembly,
///  - #error, #warning and pragmas that compilers ignore have no text, and groups that begin with
///    `#if 0` or `#if false` are empty,
///  - bytes that are not printable ASCII are `?`, so that no text is shown in another order.
/// Accepts any text. Unterminated constructs end where the compiler would report them, or at the
/// end of the file. Identifiers and macros stay, because they are the code. Follows C++'s phases of
/// translation ([lex.phases]). Ignores trigraphs, which C++ no longer has, and all digraphs except
/// `%:`, which starts a directive.
std::string Neutralised(std::string_view source);

}  // namespace cupel::review
