// Makes one self-contained HTML page from data and the code that shows it. The page fetches
// nothing, which its own Content-Security-Policy enforces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace cupel::report {

/// `data` may contain untrusted texts: it is embedded only as data, in the element "data". The
/// other arguments must be trusted.
std::string SelfContainedPage(std::string_view title, std::string_view css, std::string_view body,
                              const Json& data, std::string_view script);

}  // namespace cupel::report
