// What the readers of all of PyTorch's children share. The task's code runs in those processes:
// what they say is bounded, and believed as far as it makes sense. SPDX-License-Identifier:
// Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace cupel::oracle {

/// "baseline.py answers nonsense: …"; `who` names the child's program.
tl::unexpected<Error> Nonsense(std::string_view who, std::string_view what);

/// One line, of bounded length: it comes from the task's code and from compilers.
Result<std::string> ReplyText(const Json& reply, const char* key, std::string_view who);

}  // namespace cupel::oracle
