// SPDX-License-Identifier: Apache-2.0
#include "base/words.h"

namespace cupel {

Result<std::vector<std::string>> SplitWords(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool space = c == ' ' || c == '\t' || c == '\n';
    if (c == '\0') return Fail(ErrorCode::kInvalidArgument, "a command contains a NUL byte");
    if (quote == 0 && space) {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
      continue;
    }
    in_word = true;
    if (c == '\\' && quote != '\'') {
      if (i + 1 == line.size()) {
        return Fail(ErrorCode::kInvalidArgument, "a command ends in a backslash");
      }
      // Inside double quotes a backslash escapes only '"' and '\\'.
      const char next = line[i + 1];
      if (quote == '"' && next != '"' && next != '\\') {
        word += c;
      } else {
        word += next;
        ++i;
      }
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else {
      word += c;
    }
  }
  if (quote != 0) {
    return Fail(ErrorCode::kInvalidArgument, "a quote in a command is not closed");
  }
  if (in_word) words.push_back(std::move(word));
  return words;
}

}  // namespace cupel
