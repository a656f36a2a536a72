// Aligned text tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace cupel::term {

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);
  /// Adds cells in the order of the columns. Missing cells are empty; too many are a bug.
  void Add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  /// The titles, then the rows, each ending in '\n'. If `width` > 0, the widest left-aligned column
  /// is cut so that lines fit. Cells are made printable.
  std::string Render(int width = 0, const std::string& indent = "") const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace cupel::term
