// What the driver says of kernels that went wrong, as findings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "engine/run.h"
#include "gpu/device.h"

namespace cupel::gpu {

/// Waits for the device's stream: nothing when all went well, "time_out" after `deadline`, else
/// what the error code stands for. After a finding the context is lost.
Result<std::optional<engine::Finding>> AwaitKernels(const Device& device,
                                                    std::chrono::milliseconds deadline,
                                                    bool spin = false);

/// True for findings after which nothing more runs in this process.
bool EndsContext(const engine::Finding& finding);

}  // namespace cupel::gpu
