// SPDX-License-Identifier: Apache-2.0
#include "base/name_some.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cupel {

std::string NameSome(std::span<const std::string> names, size_t most) {
  const size_t named = std::min(most, names.size());
  std::string text = fmt::format("{}", fmt::join(names.first(named), ", "));
  if (names.size() > named) text += fmt::format(" and {} more", names.size() - named);
  return text;
}

}  // namespace cupel
