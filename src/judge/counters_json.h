// What an engine counted, as JSON (docs/formats/verdict.md). SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "engine/engine.h"

namespace cupel::judge {

Json CountersJson(const engine::LaunchCounters& launch);

}  // namespace cupel::judge
