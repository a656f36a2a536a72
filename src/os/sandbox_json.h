// What was in force of a sandbox, for records. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/json_fwd.h"
#include "base/result.h"
#include "os/sandbox.h"

namespace cupel::os {

/// Every member by its name, and "enough".
Json ToJson(const SandboxReport& report);
/// What ToJson wrote. Error: it is not that.
Result<SandboxReport> SandboxReportFromJson(const Json& json, std::string_view what);

}  // namespace cupel::os
