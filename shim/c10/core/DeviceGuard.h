// c10::DeviceGuard: there is one device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/cuda/CUDAGuard.h"

namespace c10 {
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device) {
    if (device.is_cuda()) c10::cuda::set_device(device.index());
  }
  ~DeviceGuard() {}
};
class OptionalDeviceGuard {
 public:
  OptionalDeviceGuard() = default;
  explicit OptionalDeviceGuard(optional<Device>) {}
  ~OptionalDeviceGuard() {}
};
}  // namespace c10

namespace at {
using c10::DeviceGuard;
using c10::OptionalDeviceGuard;
}  // namespace at
