// Detects launch configurations that the CUDA driver rejects before a kernel runs. Such a launch
// must fail as on the device, because code that ignores the error returns uninitialised memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "build/image.h"
#include "device/device.h"
#include "emu/core/kernel.h"
#include "engine/engine.h"
#include "plan/plan.h"
#include "ptx/ir.h"

namespace cupel::emu {

/// The properties of a kernel that the driver checks.
struct KernelLimits {
  std::string demangled;
  int registers = 0;  // of one thread; 0: not known
  /// Those that a thread's warp has at the launch, if setmaxnreg has an effect; 0 otherwise.
  uint32_t movable_registers = 0;
  uint64_t static_shared = 0;
  uint32_t param_bytes = 0;
  plan::Dim3 cluster{0, 0, 0};              // as Kernel::cluster
  const ptx::Function* function = nullptr;  // its directives; may be null
};

KernelLimits LimitsOf(const Kernel& kernel, const ptx::Module& module,
                      const std::vector<build::KernelResources>& resources);

/// Returns the finding "illegal_launch" with CUDA's error name and the limit, or nullopt if the
/// launch is legal on `device`.
std::optional<records::Finding> CheckLaunch(const plan::Launch& launch, const KernelLimits& kernel,
                                            const device::Description& device);

}  // namespace cupel::emu
