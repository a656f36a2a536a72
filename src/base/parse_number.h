// Reads a text that is one number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace cupel {

/// The number that the whole text is, in decimal; nothing if it is empty, has other characters
/// (also blanks or a leading '+'), or is out of the type's range.
template <class T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

}  // namespace cupel
