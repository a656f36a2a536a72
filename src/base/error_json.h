// Errors as processes of cupel tell each other of them. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/json_fwd.h"
#include "base/result.h"

namespace cupel {

/// {"code": "busy", "message": …, "remedy": …}.
Json ErrorToJson(const Error& error);

/// The code that ErrorCodeName calls so; kInternal where none is.
ErrorCode ErrorCodeNamed(std::string_view name);

}  // namespace cupel
