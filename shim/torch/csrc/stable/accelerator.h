// torch::stable::accelerator: the current device and stream. There is one device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/DeviceGuard.h"
#include "c10/cuda/CUDAStream.h"
#include "torch/csrc/stable/c/shim.h"
#include "torch/csrc/stable/device.h"
#include "torch/csrc/stable/macros.h"

namespace torch::stable::accelerator {

using DeviceIndex = int32_t;
using StreamId = c10::StreamId;

class DeviceGuard {
 public:
  explicit DeviceGuard(DeviceIndex index) { set_index(index); }
  ~DeviceGuard() {}
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  void set_index(DeviceIndex index) { c10::cuda::set_device(static_cast<c10::DeviceIndex>(index)); }
};

class Stream {
 public:
  explicit Stream(c10::cuda::CUDAStream stream) : stream_(stream) {}
  StreamId id() const { return stream_.id(); }
  void* nativeHandle() const { return stream_.stream(); }

 private:
  c10::cuda::CUDAStream stream_;
};

inline Stream getCurrentStream(DeviceIndex) { return Stream(c10::cuda::getCurrentCUDAStream()); }
inline DeviceIndex getCurrentDeviceIndex() { return 0; }

}  // namespace torch::stable::accelerator
