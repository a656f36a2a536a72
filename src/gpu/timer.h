// engine::Timer over the CUDA driver in this process. docs/measuring.md describes the protocol.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/timing.h"
#include "gpu/clock.h"
#include "gpu/nvml.h"
#include "gpu/program.h"

namespace cupel::gpu {

struct TimerEntrant {
  const GpuProgram* program = nullptr;
  std::vector<const plan::Plan*> plans;  // one, or one for each set
  const plan::Plan& plan(size_t set) const { return *plans[set < plans.size() ? set : 0]; }
};

/// Places every set of arguments for every entrant. Entrants with equal buffers share memory, so
/// that none has an advantage by its addresses. `nvml` may be null; then measuring energy is
/// unsupported. Borrows its arguments.
Result<std::unique_ptr<engine::Timer>> MakeLocalTimer(
    const Device& device, Clock& clock, const Nvml* nvml, std::span<const TimerEntrant> entrants,
    std::span<const std::vector<std::span<const std::byte>>> sets);

}  // namespace cupel::gpu
