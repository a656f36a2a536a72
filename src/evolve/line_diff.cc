// SPDX-License-Identifier: Apache-2.0
#include "evolve/line_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/text.h"

namespace cupel::evolve {
namespace {

using TextLines = std::vector<std::string_view>;

constexpr size_t kContext = 2;  // lines

/// A line of the result. `number`: of the line in `from`, or of the one before which it is added.
struct Step {
  char mark = ' ';  // ' ', '-' or '+'
  size_t number = 0;
  std::string_view line;
};

/// The lengths of the longest common subsequences of all ends of two lists: at [i * (m + 1) + j]
/// that of from[i…] and to[j…].
std::vector<uint32_t> CommonLengths(const TextLines& from, const TextLines& to) {
  const size_t columns = to.size() + 1;
  std::vector<uint32_t> lengths((from.size() + 1) * columns, 0);
  for (size_t i = from.size(); i-- > 0;) {
    for (size_t j = to.size(); j-- > 0;) {
      lengths[i * columns + j] =
          from[i] == to[j] ? lengths[(i + 1) * columns + j + 1] + 1
                           : std::max(lengths[(i + 1) * columns + j], lengths[i * columns + j + 1]);
    }
  }
  return lengths;
}

/// All steps from `from` to `to`, whose first line has the number `first`.
std::vector<Step> StepsBetween(const TextLines& from, const TextLines& to, size_t first) {
  const std::vector<uint32_t> lengths = CommonLengths(from, to);
  const size_t columns = to.size() + 1;
  std::vector<Step> steps;
  for (size_t i = 0, j = 0; i < from.size() || j < to.size();) {
    if (i < from.size() && j < to.size() && from[i] == to[j]) {
      steps.push_back({' ', first + i, from[i]});
      ++i, ++j;
    } else if (j == to.size() || (i < from.size() &&
                                  lengths[(i + 1) * columns + j] >= lengths[i * columns + j + 1])) {
      steps.push_back({'-', first + i, from[i]});
      ++i;
    } else {
      steps.push_back({'+', first + i, to[j]});
      ++j;
    }
  }
  return steps;
}

}  // namespace

std::optional<std::string> LineDiff(std::string_view from, std::string_view to, size_t most) {
  const TextLines one = SplitLines(from), other = SplitLines(to);
  const size_t shorter = std::min(one.size(), other.size());
  size_t begin = 0, end = 0;  // equal lines
  while (begin < shorter && one[begin] == other[begin]) ++begin;
  while (end < shorter - begin && one[one.size() - 1 - end] == other[other.size() - 1 - end]) ++end;
  if (begin == one.size() && begin == other.size()) return std::string();
  if ((one.size() - begin - end + 1) * (other.size() - begin - end + 1) > kMostLinePairs) {
    return std::nullopt;
  }
  // Their context belongs to the steps.
  begin -= std::min(begin, kContext);
  end -= std::min(end, kContext);
  const auto middle = [&](const TextLines& all) {
    return TextLines(all.begin() + static_cast<std::ptrdiff_t>(begin),
                     all.end() - static_cast<std::ptrdiff_t>(end));
  };
  const std::vector<Step> steps = StepsBetween(middle(one), middle(other), begin + 1);
  std::vector<bool> shown(steps.size(), false);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].mark == ' ') continue;
    const size_t last = std::min(steps.size(), i + kContext + 1);
    for (size_t k = i - std::min(i, kContext); k < last; ++k) shown[k] = true;
  }
  std::string text;
  for (size_t i = 0; i < steps.size() && text.size() <= most; ++i) {
    if (!shown[i]) continue;
    if (i == 0 || !shown[i - 1]) text += fmt::format("@@ {} @@\n", steps[i].number);
    text += fmt::format("{}{}\n", steps[i].mark, steps[i].line);
  }
  if (text.size() > most) return std::nullopt;
  return text;
}

}  // namespace cupel::evolve
