// SPDX-License-Identifier: Apache-2.0
#include "base/spelling.h"

#include <algorithm>
#include <vector>

namespace cupel {
namespace {

constexpr size_t kLongestName = 64;  // the time grows with the square of the length

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      const size_t changed = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({changed, rows[i - 1][j] + 1, rows[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

std::string ClosestName(std::string_view name, std::span<const std::string> known) {
  if (name.size() > kLongestName) return {};
  std::string closest;
  size_t least = name.size() / 3 + 1;
  for (const std::string& one : known) {
    if (one.size() > kLongestName) continue;
    const size_t distance = EditDistance(name, one);
    if (distance < least) {
      least = distance;
      closest = one;
    }
  }
  return closest;
}

std::string DidYouMean(std::string_view name, std::span<const std::string> known) {
  const std::string closest = ClosestName(name, known);
  return closest.empty() ? "" : "did you mean " + closest + "? ";
}

}  // namespace cupel
