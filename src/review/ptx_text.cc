// SPDX-License-Identifier: Apache-2.0
#include "review/ptx_text.h"

namespace cupel::review {
namespace {

/// One character of a string: its spelling in the source, and its value.
struct Character {
  std::string_view written;
  char meaning = 0;
};

size_t DigitsEnd(std::string_view text, size_t at, size_t most, std::string_view digits) {
  const size_t end = at + most;
  while (at < text.size() && at < end && digits.find(text[at]) != std::string_view::npos) ++at;
  return at;
}

unsigned long Number(std::string_view digits, int base) {
  unsigned long value = 0;
  for (const char c : digits) {
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    value = value * static_cast<unsigned long>(base) + static_cast<unsigned long>(digit);
    if (value > 0xffff) break;  // no character that matters here
  }
  return value;
}

Character CharacterAt(std::string_view text, size_t at, bool raw) {
  if (raw || text[at] != '\\' || at + 1 >= text.size()) return {text.substr(at, 1), text[at]};
  constexpr std::string_view kHex = "0123456789abcdefABCDEF";
  const char kind = text[at + 1];
  const auto numbered = [&](size_t digits, size_t most, int base, std::string_view allowed) {
    const size_t end = DigitsEnd(text, digits, most, allowed);
    const unsigned long value = Number(text.substr(digits, end - digits), base);
    return Character{text.substr(at, end - at), value < 0x80 ? static_cast<char>(value) : '?'};
  };
  if (kind == 'n') return {text.substr(at, 2), '\n'};
  if (kind == 'x') return numbered(at + 2, text.size(), 16, kHex);
  if (kind == 'u') return numbered(at + 2, 4, 16, kHex);
  if (kind == 'U') return numbered(at + 2, 8, 16, kHex);
  if (kind >= '0' && kind <= '7') return numbered(at + 1, 3, 8, "01234567");
  if (kind == 't' || kind == 'v' || kind == 'f' || kind == 'r') return {text.substr(at, 2), ' '};
  return {text.substr(at, 2), kind};  // \" \\ \'
}

}  // namespace

std::string PtxText::Neutralised(std::string_view content, bool raw) {
  std::string out;
  for (size_t at = 0; at < content.size();) {
    const Character character = CharacterAt(content, at, raw);
    at += character.written.size();
    const char c = character.meaning;
    const char last = last_;
    last_ = c;
    switch (state_) {
      case State::kCode:
        if (last == '/' && (c == '/' || c == '*')) {
          // If the first of the two is in an earlier string, it has been written already.
          if (!out.empty()) out.pop_back();
          state_ = c == '/' ? State::kLine : State::kBlock;
          last_ = 0;
        } else if (c == '"') {
          state_ = State::kQuoted;
        } else {
          // Write the character itself, so that escapes cannot hide words.
          const bool itself = c > ' ' && c < 0x7f && c != '\\' && c != '"';
          out += itself ? std::string_view(&character.meaning, 1) : character.written;
        }
        break;
      case State::kLine:
        if (c == '\n') {
          state_ = State::kCode;
          out += character.written;
        }
        break;
      case State::kBlock:
        if (last == '*' && c == '/') {
          state_ = State::kCode;
          last_ = 0;
          out += ' ';
        } else if (c == '\n') {
          out += character.written;
        }
        break;
      case State::kQuoted:
        if (c == '"') state_ = State::kCode;
        break;
    }
  }
  return out;
}

}  // namespace cupel::review
