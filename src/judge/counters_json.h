// What an engine counted, as JSON (docs/formats/verdict.md). SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "engine/engine.h"

namespace cupel::judge {

/// With at most `most_lines` of its lines.
Json CountersJson(const engine::LaunchCounters& launch, size_t most_lines = 16);

}  // namespace cupel::judge
