// Small helpers for ASCII text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace cupel {

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// Removes blanks, line ends and the characters of `also` from both ends.
constexpr std::string_view Trim(std::string_view text, std::string_view also = {}) {
  const auto drop = [also](char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' ||
           also.find(c) != std::string_view::npos;
  };
  while (!text.empty() && drop(text.front())) text.remove_prefix(1);
  while (!text.empty() && drop(text.back())) text.remove_suffix(1);
  return text;
}

/// Cuts a text to at most `max` bytes, never within a UTF-8 character, and then appends " …".
inline std::string Bounded(std::string_view text, size_t max) {
  if (text.size() <= max) return std::string(text);
  size_t end = max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + " …";
}

/// The lines without their '\n': "a\n" has one line, "" has none. They refer to `text`.
inline std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// A sentence in the form in which it follows a colon: "A grid is too large." as "a grid is too
/// large".
inline std::string AfterColon(std::string text) {
  if (text.ends_with('.')) text.pop_back();
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  if (text.starts_with("A ") || (text.size() > 1 && is_lower(text[1]))) {
    if (text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  }
  return text;
}

}  // namespace cupel
