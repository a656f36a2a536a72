// The sessions of lanes (base/lanes.h): one, or one for each GPU of the machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "app/session.h"

namespace cupel::app {

/// Opens one session for "gpu:N", "gpu" or "emu", or one for each GPU for "gpu:all". They are ready
/// for timing.
Result<std::vector<std::unique_ptr<Session>>> OpenLanes(const Common& common,
                                                        const Compile& compile, Events& events);

}  // namespace cupel::app
