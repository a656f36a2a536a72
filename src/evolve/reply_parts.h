// Splits a model's answer into prose, fenced code blocks and search-and-replace edits, with limits
// for untrusted text. Fences follow CommonMark, except that code is scanned as C++ or Python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evolve/reply.h"

namespace cupel::evolve {

/// Error kInvalidArgument, with a short description of the format as the remedy.
tl::unexpected<Error> BadReply(std::string what);

/// ASCII letters only.
std::string Lower(std::string_view text);

/// Iterates over the lines of a text. Lines do not include '\n'.
struct Lines {
  std::string_view text;
  size_t next = 0;  // start of the next line
  size_t begin = 0;
  int number = 0;  // of this line, from 1
  std::string_view line = {};

  bool Advance();
};

struct ReplyParts {
  std::string prose;  // before the first block
  std::string after;  // the text after it, outside of blocks
  std::vector<std::string> code;
  std::vector<Edit> edits;
};

/// `text` has LF only and no reasoning before it.
Result<ReplyParts> SplitReply(std::string_view text, Form form);

}  // namespace cupel::evolve
