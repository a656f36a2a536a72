// An engine's counters as JSON (docs/formats/verdict.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "engine/engine.h"

namespace cupel::judge {

/// Includes at most `most_lines` lines.
Json CountersJson(const engine::LaunchCounters& launch, size_t most_lines = 16);

}  // namespace cupel::judge
