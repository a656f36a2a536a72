// Writes the results of a suite as one self-contained HTML page (see page.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json.h"

namespace cupel::report {

/// `document` is a cupel.suite/1. Its texts may be untrusted.
std::string SuiteHtml(const Json& document);

}  // namespace cupel::report
