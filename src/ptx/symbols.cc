// SPDX-License-Identifier: Apache-2.0
#include "ptx/symbols.h"

#include <fmt/format.h>

#include "base/parse_number.h"

namespace cupel::ptx {

NumberedName SplitNumber(std::string_view name) {
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  NumberedName out{name.substr(0, digits), -1};
  const std::string_view number = name.substr(digits);
  if (number.empty() || number.size() > 9 || (number.size() > 1 && number[0] == '0')) return out;
  out.number = ParseNumber<decltype(out.number)>(number).value_or(-1);
  return out;
}

void SymbolTable::Leave() {
  auto& undo = undo_.back();
  for (auto it = undo.rbegin(); it != undo.rend(); ++it) {
    if (it->is_range) {
      if (it->range.depth < 0) {
        ranges_.erase(it->name);
      } else {
        ranges_[it->name] = it->range;
      }
    } else if (it->symbol.kind == SymbolKind::kNone) {
      symbols_.erase(it->name);
    } else {
      symbols_[it->name] = it->symbol;
    }
  }
  undo_.pop_back();
  if (!undo_.empty()) return;
  taken_.clear();
  taken_stems_.clear();
  taken_ranges_.clear();
  next_suffix_.clear();
  made_.clear();
}

bool SymbolTable::Declare(std::string_view name, Symbol symbol) {
  symbol.depth = depth();
  auto [it, is_new] = symbols_.try_emplace(name, symbol);
  if (!is_new && it->second.depth == depth()) return false;
  const NumberedName parts = SplitNumber(name);
  if (parts.number >= 0) {
    const auto range = ranges_.find(parts.stem);
    if (range != ranges_.end() && range->second.depth == depth() &&
        parts.number < range->second.count) {
      if (is_new) symbols_.erase(it);
      return false;
    }
  }
  if (depth() > 0) undo_.back().push_back({name, is_new ? Symbol{} : it->second, {}, false});
  it->second = symbol;
  return true;
}

bool SymbolTable::DeclareRange(std::string_view prefix, uint32_t count, int first) {
  auto [it, is_new] = ranges_.try_emplace(prefix, Range{depth(), first, count});
  if (!is_new && it->second.depth == depth()) return false;
  undo_.back().push_back({prefix, {}, is_new ? Range{-1, 0, 0} : it->second, true});
  it->second = Range{depth(), first, count};
  return true;
}

Symbol SymbolTable::Find(std::string_view name) const {
  Symbol found;
  const auto exact = symbols_.find(name);
  if (exact != symbols_.end()) found = exact->second;
  const NumberedName parts = SplitNumber(name);
  if (parts.number < 0) return found;
  const auto range = ranges_.find(parts.stem);
  if (range == ranges_.end() || parts.number >= range->second.count ||
      range->second.depth <= found.depth) {
    return found;
  }
  found.kind = SymbolKind::kRegister;
  found.depth = range->second.depth;
  found.reg = range->second.first + static_cast<int>(parts.number);
  found.name = {};
  return found;
}

bool SymbolTable::Taken(std::string_view name) const {
  if (taken_.contains(name)) return true;
  // True for a name of the module that a function's own name would hide.
  const auto module_symbol = symbols_.find(name);
  if (module_symbol != symbols_.end() && module_symbol->second.depth == 0) return true;
  const NumberedName parts = SplitNumber(name);
  if (parts.number < 0) return false;
  const auto range = taken_ranges_.find(parts.stem);
  return range != taken_ranges_.end() && parts.number < range->second;
}

void SymbolTable::Take(std::string_view name) {
  taken_.insert(name);
  const NumberedName parts = SplitNumber(name);
  if (parts.number >= 0) taken_stems_.insert(parts.stem);
}

std::string_view SymbolTable::Unique(std::string_view name) {
  if (Taken(name)) {
    uint32_t& suffix = next_suffix_[name];
    std::string candidate;
    do {
      candidate = fmt::format("{}${}", name, ++suffix);
    } while (Taken(candidate));
    name = made_.emplace_back(std::move(candidate));
  }
  Take(name);
  return name;
}

std::string_view SymbolTable::UniquePart(std::string_view vector, char part) {
  return Unique(made_.emplace_back(fmt::format("{}${}", vector, part)));
}

std::string_view SymbolTable::UniquePrefix(std::string_view prefix, uint32_t count) {
  const auto is_free = [&](std::string_view candidate) {
    if (taken_ranges_.contains(candidate)) return false;
    if (!taken_stems_.contains(candidate)) return true;
    for (uint32_t i = 0; i < count; ++i) {
      if (Taken(fmt::format("{}{}", candidate, i))) return false;
    }
    return true;
  };
  if (!is_free(prefix)) {
    uint32_t& suffix = next_suffix_[prefix];
    std::string candidate;
    do {
      candidate = fmt::format("{}${}_", prefix, ++suffix);
    } while (!is_free(candidate));
    prefix = made_.emplace_back(std::move(candidate));
  }
  taken_ranges_.emplace(prefix, count);
  return prefix;
}

}  // namespace cupel::ptx
