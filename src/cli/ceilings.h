// The ceilings of the GPU that is used: measured once, then remembered in the cache folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/engine.h"

namespace cupel::cli {

Result<engine::Ceilings> CeilingsOf(engine::Engine& engine);

}  // namespace cupel::cli
