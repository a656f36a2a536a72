// What a GPU really reaches: the ceilings that a kernel's time is held against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/ceilings.h"
#include "gpu/clock.h"

namespace cupel::gpu {

/// Takes about a second and 2 GiB of the GPU's memory (less on small ones).
Result<engine::Ceilings> MeasureCeilings(const Device& device, Clock& clock);

}  // namespace cupel::gpu
