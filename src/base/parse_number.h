// Reads numbers from text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace cupel {

/// The decimal number at the beginning of `text`, which is removed from it. Nothing if there is
/// none (blanks or a leading '+' are not part of a number), or if it is out of the type's range.
template <class T>
std::optional<T> TakeNumber(std::string_view& text) {
  T value{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return value;
}

/// The number that the whole text is. Nothing if it has other characters.
template <class T>
std::optional<T> ParseNumber(std::string_view text) {
  const auto value = TakeNumber<T>(text);
  return text.empty() ? value : std::nullopt;
}

}  // namespace cupel
