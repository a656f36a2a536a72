// Splits CUDA source into tokens, without a compiler.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

namespace cupel::evolve {

struct Token {
  enum class Kind {
    kWord,         // names and keywords
    kNumber,       // 16u, 0x1p-3, 1'000, .5f
    kPunctuation,  // one character
    kString,       // strings and characters, with their quotes
    kLineComment,
  } kind;
  std::string_view text;
  size_t begin = 0;  // byte in the source
  int line = 1;
};

/// Accepts any bytes. Drops comments between /* and */. Borrows `source`.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace cupel::evolve
