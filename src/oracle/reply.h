// Helpers to read replies of PyTorch's children. The task's code runs in those processes, so the
// readers limit and validate every reply.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace cupel::oracle {

/// "baseline.py sent an invalid reply: …"; `who` is the name of the child's program.
tl::unexpected<Error> InvalidReply(std::string_view who, std::string_view what);

/// A text of bounded length on one line. It may come from the task's code or a compiler.
Result<std::string> ReplyText(const Json& reply, const char* key, std::string_view who);

}  // namespace cupel::oracle
