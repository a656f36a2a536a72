// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

namespace cupel::build {

/// True if the list of texts contains `text`.
template <typename List>
bool IsOneOf(const List& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace cupel::build
