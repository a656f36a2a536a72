// Executes plans on a GPU in this process: engine::Program over the CUDA driver. After a fault or a
// time-out the context is lost and every later Execute fails. The worker process (worker.h) is then
// replaced.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/state.h"
#include "gpu/device.h"
#include "gpu/module.h"

namespace cupel::gpu {

struct ReplayOptions {
  std::chrono::milliseconds deadline{20'000};  // of one plan
  /// Names of each image's variables, which have their initial values at the start of every run.
  std::vector<std::vector<std::string>> variables;
  /// Each run's seed determines the addresses of its buffers, and the date and multiprocessor
  /// numbers that kernels read (surroundings.h). The driver then compiles such kernels from PTX.
  bool vary_surroundings = false;
};

/// Every call begins with the variables' initial values, unless their state is kept (StateKeeper).
class GpuProgram : public engine::Program, public engine::StateKeeper {
 public:
  virtual std::span<const Module> modules() const = 0;  // of the images
  virtual const ModuleVariables& variables() const = 0;
};

/// Loads each image's cubin, or its PTX if there is no cubin. Borrows the device.
Result<std::unique_ptr<GpuProgram>> LoadProgram(const Device& device, const build::Images& images,
                                                ReplayOptions options = {});

}  // namespace cupel::gpu
