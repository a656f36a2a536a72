// What must be the same in a coordinator and its workers: the program, and the data it judges with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "serve/protocol.h"

namespace cupel::serve {

/// This process. `data` is the folder of installed data (os::DataDir).
Result<Hello> WhoAmI(const std::filesystem::path& data);

/// Why `worker` may not work for `ours`, and what to do; nothing when it may.
std::optional<Error> WhyNot(const Hello& ours, const Hello& worker);

}  // namespace cupel::serve
