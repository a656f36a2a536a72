// Executes plans on a GPU of this process: engine::Program over the CUDA driver. After a fault or a
// time-out the context is lost and every later Execute fails; worker.h gives each such end a new
// process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include "engine/engine.h"
#include "gpu/device.h"

namespace cupel::gpu {

struct ReplayOptions {
  std::chrono::milliseconds deadline{20'000};  // of one plan
};

/// Loads the image's cubin, or its PTX when there is none. Borrows the device.
Result<std::unique_ptr<engine::Program>> LoadProgram(const Device& device,
                                                     const build::Image& image,
                                                     ReplayOptions options = {});

/// True for findings after which nothing more runs in this process.
bool EndsContext(const engine::Finding& finding);

}  // namespace cupel::gpu
