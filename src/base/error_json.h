// Errors as JSON, for messages between processes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/json_fwd.h"
#include "base/result.h"

namespace cupel {

/// {"code": "busy", "message": …, "remedy": …}.
Json ErrorToJson(const Error& error);

/// The inverse of ErrorCodeName. Returns kInternal for an unknown name.
ErrorCode ErrorCodeNamed(std::string_view name);

}  // namespace cupel
