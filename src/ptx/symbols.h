// Names in scope during parsing. Scopes nest (module, function, blocks of inline assembly and of
// calls), and the innermost declaration takes precedence. The IR is flat, so a name that a nested
// scope declares again gets a new, unique name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace cupel::ptx {

enum class SymbolKind : uint8_t { kNone, kRegister, kVector, kVariable, kFunction };

struct Symbol {
  SymbolKind kind = SymbolKind::kNone;
  int depth = -1;
  int reg = -1;           // kRegister: index; kVector: index of the first element
  std::string_view name;  // the unique name
  int width = 1;          // kVector: elements
};

/// Views passed in must outlive the table (they point into the PTX text).
class SymbolTable {
 public:
  /// Module scope is depth 0; function scope (parameters) 1; its body 2; blocks deeper.
  int depth() const { return static_cast<int>(undo_.size()); }
  void Enter() { undo_.emplace_back(); }
  /// Leaving depth 1 removes the function's names.
  void Leave();

  /// Returns false if the same scope already declares the name.
  bool Declare(std::string_view name, Symbol symbol);
  /// Declares registers prefix0 … prefix(count-1) with indices from `first`.
  bool DeclareRange(std::string_view prefix, uint32_t count, int first);
  Symbol Find(std::string_view name) const;

  /// Reserves `name`, or a variation of it that no other name of this function has.
  std::string_view Unique(std::string_view name);
  /// A unique name for an element of a vector.
  std::string_view UniquePart(std::string_view vector, char part);
  /// Like Unique, for a whole range. Returns the prefix to use.
  std::string_view UniquePrefix(std::string_view prefix, uint32_t count);

 private:
  struct Range {
    int depth;
    int first;
    uint32_t count;
  };
  struct Undo {
    std::string_view name;
    Symbol symbol;
    Range range;
    bool is_range;
  };

  bool Taken(std::string_view name) const;
  void Take(std::string_view name);

  std::unordered_map<std::string_view, Symbol> symbols_;
  std::unordered_map<std::string_view, Range> ranges_;
  std::vector<std::vector<Undo>> undo_;

  // Names used in the current function.
  std::unordered_set<std::string_view> taken_;
  std::unordered_set<std::string_view> taken_stems_;  // of taken names that end in a number
  std::unordered_map<std::string_view, uint32_t> taken_ranges_;
  std::unordered_map<std::string_view, uint32_t> next_suffix_;
  std::deque<std::string> made_;
};

/// Splits "%r12" into "%r" and 12. `number` is -1 without digits, with a leading zero, or beyond
/// 2^30.
struct NumberedName {
  std::string_view stem;
  int64_t number = -1;
};
NumberedName SplitNumber(std::string_view name);

}  // namespace cupel::ptx
