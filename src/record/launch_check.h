// The limits of launches: what CUDA refuses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "device/device.h"
#include "plan/plan.h"
#include "record/work.h"

namespace cupel::record {

struct LaunchShape {
  plan::Dim3 grid, block, cluster;
  size_t dynamic_shared = 0;
  bool cooperative = false;
};

struct LaunchViolation {
  int error = 0;        // a cudaError_t
  std::string message;  // "kernel k was launched with …; CUDA refuses it (cudaErrorInvalidValue)"
};

/// The limit of `device` or of the kernel that a launch exceeds; nothing if it is legal.
std::optional<LaunchViolation> CheckLaunch(const Kernel& kernel, const LaunchShape& launch,
                                           const device::Description& device);

}  // namespace cupel::record
