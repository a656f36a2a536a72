// Prints .file, .loc and the names of inlined functions. The parser reads the same positions back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ptx/ir.h"

namespace cupel::ptx {

class LocationPrinter {
 public:
  explicit LocationPrinter(const Module& module);

  void PrintFiles(std::string* out) const;
  void EnterFunction();
  /// Prints the .loc lines for the next instruction if its position is new. The positions of
  /// inlined calls come first: inlined_at refers to an earlier .loc.
  void PrintLoc(const Location& location, std::string* out);
  /// Prints .section .debug_str with the names that sites use.
  void PrintNames(std::string* out) const;

 private:
  using Position = std::pair<std::pair<int, int>, int>;  // file, line, column

  void PrintOne(const Location& location, std::string* out);

  const Module& module_;
  std::vector<std::string_view> names_;
  std::unordered_map<std::string_view, size_t> name_indices_;
  std::map<Position, int> seen_;  // the latest inlined_at in this function
  Location current_;
};

}  // namespace cupel::ptx
