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
inline cudaError_t GetDeviceCount(int* count) { return cudaGetDeviceCount(count); }
inline cudaError_t GetDevice(DeviceIndex* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t SetDevice(DeviceIndex device) {
  return device > 0 ? cudaErrorInvalidDevice : cudaSuccess;
}
inline cudaError_t MaybeSetDevice(DeviceIndex device) { return SetDevice(device); }
inline DeviceIndex ExchangeDevice(DeviceIndex device) {
  set_device(device);
  return 0;
}
inline DeviceIndex MaybeExchangeDevice(DeviceIndex device) { return ExchangeDevice(device); }
inline void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
inline int warp_size() { return 32; }
}  // namespace c10::cuda
