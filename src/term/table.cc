// SPDX-License-Identifier: Apache-2.0
#include "term/table.h"

#include <algorithm>
#include <numeric>

#include "base/result.h"
#include "term/text.h"

namespace cupel::term {
namespace {

constexpr int kGap = 2;
constexpr int kNarrowest = 8;

std::string Pad(const std::string& cell, int width, Align align) {
  const std::string text = Fit(cell, width);
  const std::string spaces(static_cast<size_t>(std::max(0, width - Width(text))), ' ');
  return align == Align::kLeft ? text + spaces : spaces + text;
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::Add(std::vector<std::string> cells) {
  CHECK(cells.size() <= columns_.size());
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::Render(int width, const std::string& indent) const {
  std::vector<int> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(Width(columns_[c].title));
    for (const auto& row : rows_) widths[c] = std::max(widths[c], Width(row[c]));
  }
  int total = Width(indent) + std::accumulate(widths.begin(), widths.end(), 0) +
              kGap * (static_cast<int>(widths.size()) - 1);
  while (width > 0 && total > width) {
    size_t widest = columns_.size();
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (columns_[c].align != Align::kLeft || widths[c] <= kNarrowest) continue;
      if (widest == columns_.size() || widths[c] > widths[widest]) widest = c;
    }
    if (widest == columns_.size()) break;
    --widths[widest];
    --total;
  }
  std::string out;
  const auto line = [&](auto cell_of) {
    std::string text = indent;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) text.append(kGap, ' ');
      text += Pad(cell_of(c), widths[c], columns_[c].align);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  };
  line([&](size_t c) { return columns_[c].title; });
  for (const auto& row : rows_) line([&](size_t c) { return row[c]; });
  return out;
}

}  // namespace cupel::term
