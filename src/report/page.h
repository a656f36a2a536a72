// One self-contained HTML page from data and the code that shows it: it fetches nothing, and its
// own policy forbids it to. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace cupel::report {

/// Texts in `data` reach the page as data alone; the scripts find it in the element "data". The
/// other texts are ours.
std::string SelfContainedPage(std::string_view title, std::string_view css, std::string_view body,
                              const Json& data, std::string_view script);

}  // namespace cupel::report
