// What must be equal in a coordinator and its workers: the program, and the data it judges with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "serve/protocol.h"

namespace cupel::serve {

/// Describes this process. `data` is the folder of installed data (os::DataDir).
Result<Hello> WhoAmI(const std::filesystem::path& data);

/// Why the coordinator `ours` cannot use `worker`, and what to do; nullopt if it can.
std::optional<Error> Incompatibility(const Hello& ours, const Hello& worker);

}  // namespace cupel::serve
