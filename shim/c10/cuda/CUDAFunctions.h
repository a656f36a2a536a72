// Device queries. A recording has one GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/Device.h"
#include "c10/cuda/CUDAException.h"

namespace c10::cuda {
inline DeviceIndex device_count() { return 1; }
inline DeviceIndex device_count_ensure_non_zero() { return 1; }
inline DeviceIndex current_device() { return 0; }
inline void set_device(DeviceIndex device) {
  if (device > 0) C10_CUDA_CHECK(cudaErrorInvalidDevice);
}
inline void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
inline int warp_size() { return 32; }
}  // namespace c10::cuda
