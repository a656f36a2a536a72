// SPDX-License-Identifier: Apache-2.0
#include "task/allowed_operators.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/printable.h"
#include "base/text.h"

namespace cupel::task {
namespace {

constexpr size_t kMostNames = 256;

/// "aten::sum_" of "aten::sum_.dim_IntList".
std::string_view WithoutOverload(std::string_view name) { return name.substr(0, name.find('.')); }

/// "aten::sum" of "aten::sum_".
std::string_view WithoutPlace(std::string_view name) {
  if (name.ends_with('_') && !name.ends_with("__")) name.remove_suffix(1);
  return name;
}

bool IsName(std::string_view name) {
  const size_t space = name.find("::");
  return name.size() <= 120 && space != std::string_view::npos && space + 2 < name.size() &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == ':' || c == '.';
         });
}

}  // namespace

bool AllowedOperators::Allow(std::string_view name) const {
  return all || std::any_of(names.begin(), names.end(), [&](const std::string& allowed) {
           const std::string_view operation = WithoutOverload(name);
           return allowed == name || allowed == operation || allowed == WithoutPlace(operation);
         });
}

std::string Text(const AllowedOperators& operators) {
  if (operators.all) return "allowed";
  if (operators.names.empty()) return "none";
  return fmt::format("{}", fmt::join(operators.names, ","));
}

Result<AllowedOperators> AllowOnly(const std::vector<std::string>& names) {
  AllowedOperators allowed;
  for (const std::string& name : names) {
    if (!IsName(name) || allowed.names.size() == kMostNames) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("\"{}\" is not the name of an operator", Printable(name.substr(0, 80))),
          "give allowed, none, or names such as aten::sum,aten::mean");
    }
    allowed.names.push_back(name);
  }
  return allowed;
}

Result<AllowedOperators> ParseAllowedOperators(std::string_view text) {
  AllowedOperators allowed;
  if (text == "none") return allowed;
  if (text == "allowed") {
    allowed.all = true;
    return allowed;
  }
  std::vector<std::string> names;
  while (true) {
    const size_t comma = text.find(',');
    names.emplace_back(Trim(text.substr(0, comma)));
    if (comma == std::string_view::npos) return AllowOnly(names);
    text.remove_prefix(comma + 1);
  }
}

}  // namespace cupel::task
