// Takes a model's answer apart: prose, fenced code blocks and search-and-replace edits, with the
// bounds that hostile text needs. Fences are CommonMark's, but for code, which is scanned as C++.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evolve/reply.h"

namespace cupel::evolve {

/// kInvalidArgument, with the format in short as the remedy.
tl::unexpected<Error> BadReply(std::string what);

/// Without blanks and line ends around it.
std::string_view Trim(std::string_view text);
/// ASCII letters only.
std::string Lower(std::string_view text);

/// Walks over the lines of a text, none of which holds its '\n'.
struct Lines {
  std::string_view text;
  size_t next = 0;  // begin of the line after this one
  size_t begin = 0;
  int number = 0;  // of this line, from 1
  std::string_view line = {};

  bool Advance();
};

struct ReplyParts {
  std::string prose;  // before the first block
  std::string after;  // what is neither before it nor in one
  std::vector<std::string> code;
  std::vector<Edit> edits;
};

/// `text` has LF only and no reasoning before it.
Result<ReplyParts> TakeApart(std::string_view text);

}  // namespace cupel::evolve
