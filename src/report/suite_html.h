// The results of a suite as one self-contained HTML page: it fetches nothing, and its own policy
// forbids it to. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json.h"

namespace cupel::report {

/// `document` is a cupel.suite/1. Its texts reach the page as data alone.
std::string SuiteHtml(const Json& document);

}  // namespace cupel::report
