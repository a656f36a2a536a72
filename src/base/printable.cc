// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <algorithm>
#include <cstddef>

namespace cupel {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

/// Length of the valid UTF-8 sequence at `at`, or 0 if there is none.
size_t SequenceLength(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                                                      : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[at + i])) return 0;
  }
  return length;
}

/// C0, DEL, C1, and the marks that reorder or hide text (U+200B-200F, U+2028-202E, U+2066-2069).
bool IsControl(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  if (sequence.size() == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  if (sequence.size() != 3 || byte(0) != 0xe2) return false;
  if (byte(1) == 0x80)
    return (byte(2) >= 0x8b && byte(2) <= 0x8f) || (byte(2) >= 0xa8 && byte(2) <= 0xae);
  return byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = SequenceLength(text, at);
    if (length == 0 || IsControl(text.substr(at, length))) {
      out += '?';
    } else {
      out += text.substr(at, length);
    }
    at += std::max<size_t>(1, length);
  }
  return out;
}

int Width(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

std::string Fit(std::string_view text, int width) {
  if (width <= 0) return "";
  if (Width(text) <= width) return std::string(text);
  int columns = 0;
  size_t end = 0;
  while (end < text.size()) {
    if (!IsContinuation(text[end]) && ++columns == width) break;
    ++end;
  }
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace cupel
