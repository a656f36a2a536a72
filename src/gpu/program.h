// Executes plans on a GPU of this process: engine::Program over the CUDA driver. After a fault or a
// time-out the context is lost and every later Execute fails; worker.h gives each such end a new
// process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/state.h"
#include "gpu/device.h"
#include "gpu/module.h"

namespace cupel::gpu {

struct ReplayOptions {
  std::chrono::milliseconds deadline{20'000};  // of one plan
  /// The module's variables, which begin every run with what the image says.
  std::vector<std::string> variables;
  /// In each run buffers lie elsewhere, and kernels that read the date or the multiprocessor's
  /// number see others (surroundings.h), all drawn from its seed. Such kernels are compiled from
  /// PTX by the driver then.
  bool vary_surroundings = false;
};

/// Every call begins with the variables as they were loaded, unless they are to be kept.
class GpuProgram : public engine::Program, public engine::StateKeeper {
 public:
  virtual const Module& module() const = 0;
  virtual const ModuleVariables& variables() const = 0;
};

/// Loads the image's cubin, or its PTX when there is none. Borrows the device.
Result<std::unique_ptr<GpuProgram>> LoadProgram(const Device& device, const build::Image& image,
                                                ReplayOptions options = {});

}  // namespace cupel::gpu
