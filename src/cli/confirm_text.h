// A record of `cupel confirm` for people. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json.h"

namespace cupel::cli {

/// The ways of timing, as the record names them (docs/formats/confirm.md).
inline constexpr const char* kConfirmWays[] = {"events", "benchmark", "do_bench"};

/// `record` is one of ours ("cupel.confirm/1").
std::string ConfirmText(const Json& record);

}  // namespace cupel::cli
