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
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace cupel
