// The ceilings of the GPU in use: measured once, then kept in the cache folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/engine.h"

namespace cupel::app {

Result<records::Ceilings> CeilingsOf(engine::Engine& engine);

}  // namespace cupel::app
