// Which parts of a sandbox were in force, as JSON for records.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/json_fwd.h"
#include "base/result.h"
#include "os/sandbox.h"

namespace cupel::os {

/// Every member by its name, and "enough".
Json ToJson(const SandboxReport& report);
/// Reads what ToJson wrote. Error if the JSON has another form; `what` names it in the message.
Result<SandboxReport> SandboxReportFromJson(const Json& json, std::string_view what);

}  // namespace cupel::os
