// SPDX-License-Identifier: Apache-2.0
#include "record/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <variant>

#include "base/text.h"
#include "plan/codec.h"

namespace cupel::record {
namespace {

/// `line` without the middle of a long text with which `other` begins too: names of templates.
std::string Brief(std::string_view line, std::string_view other) {
  constexpr size_t kKept = 80;
  const auto differs = std::mismatch(line.begin(), line.end(), other.begin(), other.end()).first;
  const size_t word = line.substr(0, static_cast<size_t>(differs - line.begin())).rfind(' ');
  if (word == std::string_view::npos || word < 2 * kKept) return std::string(line);
  return fmt::format("{} …{}", line.substr(0, kKept), line.substr(word));
}

}  // namespace

std::string Difference(const plan::Plan& before, const plan::Plan& after) {
  const std::string old_text = plan::Describe(before), new_text = plan::Describe(after);
  const auto old_lines = SplitLines(old_text), new_lines = SplitLines(new_text);
  for (size_t i = 0; i < std::max(old_lines.size(), new_lines.size()); ++i) {
    const std::string_view was = i < old_lines.size() ? old_lines[i] : "nothing";
    const std::string_view is = i < new_lines.size() ? new_lines[i] : "nothing";
    if (was != is) return fmt::format("\"{}\" became \"{}\"", Brief(was, is), Brief(is, was));
  }
  for (size_t i = 0; i < before.nodes.size(); ++i) {
    if (before.nodes[i] == after.nodes[i]) continue;
    const bool launch = std::holds_alternative<plan::Launch>(before.nodes[i].work);
    return fmt::format("{} of \"{}\" changed", launch ? "parameter values" : "details",
                       old_lines[i]);
  }
  return "sizes of buffers changed";
}

}  // namespace cupel::record
