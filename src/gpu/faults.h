// Translates the driver's errors about kernels into findings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "engine/run.h"
#include "gpu/device.h"

namespace cupel::gpu {

/// Waits for the device's stream. Returns nullopt on success, the finding "time_out" after
/// `deadline`, else the finding for the driver's error code. After a finding the context is lost.
Result<std::optional<records::Finding>> AwaitKernels(const Device& device,
                                                     std::chrono::milliseconds deadline,
                                                     bool spin = false);

/// True for findings after which no kernel can run in this process.
bool EndsContext(const records::Finding& finding);

}  // namespace cupel::gpu
