// engine::Timer over the CUDA driver, in this process: docs/measuring.md has the protocol.
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

/// Places every set of arguments for every entrant; entrants whose buffers are alike share them, so
/// that none has the better addresses. `nvml` may be null: energy is unsupported then. Borrows all.
Result<std::unique_ptr<engine::Timer>> MakeLocalTimer(
    const Device& device, Clock& clock, const Nvml* nvml, std::span<const TimerEntrant> entrants,
    std::span<const std::vector<std::span<const std::byte>>> sets);

}  // namespace cupel::gpu
