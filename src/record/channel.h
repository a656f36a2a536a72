// The recorder child's end of the channel to its parent: JSON in frames. Uses only read() and
// write(), because the sandbox allows no other calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/json_fwd.h"

namespace cupel::record {

/// Nothing if the parent has closed the channel.
std::optional<Json> ReadMessage();
/// False if the parent has closed the channel.
bool WriteMessage(const Json& json);

}  // namespace cupel::record
