// Measures the ceilings of a GPU: the rates that it reaches in practice. Kernels' times are
// compared with them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/clock.h"
#include "records/gpu_state.h"

namespace cupel::gpu {

/// Takes about a second and 2 GiB of the GPU's memory (less on small ones).
Result<records::Ceilings> MeasureCeilings(const Device& device, Clock& clock);

}  // namespace cupel::gpu
