// A kernel's source as a reviewer is shown it: without the words that could address one. Comments
// are gone, strings say nothing, and what is never compiled is left out; lines keep their numbers
// and the code its meaning. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cupel::review {

/// What stands in the place of a string's content.
inline constexpr std::string_view kWithheld = "\"...\"";

/// `source` with as many lines, in which
///  - comments are blanks (also those that go on over a spliced line, and those inside the PTX of
///    inline assembly),
///  - strings are kWithheld, but for names that bind ("forward", extern "C"), plain paths that are
///    included, and the PTX of inline assembly,
///  - #error, #warning and pragmas that no compiler acts on have no text, and groups that begin
///    with `#if 0` or `#if false` are empty,
///  - bytes that are no printable ASCII are `?`, so that nothing is shown in another order than it
///    has.
/// Any text is accepted; what is unterminated ends where the compiler's complaint would begin, or
/// with the file. Identifiers and macros stay: they are the code. After C++'s phases of translation
/// ([lex.phases]) without trigraphs and digraphs, of which the first are gone and the second stand
/// in nothing that is looked for here but `%:`, a directive's other sign.
std::string Neutralised(std::string_view source);

}  // namespace cupel::review
