// Which operators of PyTorch a candidate may let PyTorch compute.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::task {

struct AllowedOperators {
  bool all = false;
  /// If not all: names as in "aten::sum", which stands for every overload and the form in place.
  std::vector<std::string> names;

  bool Allow(std::string_view name) const;
};

/// "allowed", "none", or the names, separated by commas.
std::string Text(const AllowedOperators& operators);
/// Error: kInvalidArgument if a name has no namespace.
Result<AllowedOperators> AllowOnly(const std::vector<std::string>& names);
/// From "allowed", "none", or names separated by commas.
Result<AllowedOperators> ParseAllowedOperators(std::string_view text);

}  // namespace cupel::task
