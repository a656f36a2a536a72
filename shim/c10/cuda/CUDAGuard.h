// Guards. There is one device, so device guards only check; stream guards change the current
// stream. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/cuda/CUDAStream.h"
#include "c10/util/Optional.h"

namespace c10::cuda {

class CUDAGuard {
 public:
  explicit CUDAGuard(DeviceIndex index) { set_index(index); }
  explicit CUDAGuard(Device device) { set_device(device); }
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  ~CUDAGuard() {}  // not trivial, so that an unused guard raises no warning
  void set_device(Device device) {
    TORCH_INTERNAL_ASSERT(device.is_cuda(), "Expected a CUDA device, but got ", device);
    set_index(device.index());
  }
  void reset_device(Device device) { set_device(device); }
  void set_index(DeviceIndex index) { c10::cuda::set_device(index); }
  Device original_device() const { return Device(kCUDA, 0); }
  Device current_device() const { return Device(kCUDA, 0); }
};

class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(optional<Device> device) {
    if (device) set_device(*device);
  }
  explicit OptionalCUDAGuard(optional<DeviceIndex> index) {
    if (index) set_index(*index);
  }
  OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
  OptionalCUDAGuard& operator=(const OptionalCUDAGuard&) = delete;
  ~OptionalCUDAGuard() {}
  void set_device(Device device) {
    TORCH_INTERNAL_ASSERT(device.is_cuda(), "Expected a CUDA device, but got ", device);
    set_index(device.index());
  }
  void set_index(DeviceIndex index) { c10::cuda::set_device(index); }
  void reset() {}
};

class CUDAStreamGuard {
 public:
  explicit CUDAStreamGuard(CUDAStream stream) : before_(getCurrentCUDAStream()), now_(stream) {
    setCurrentCUDAStream(stream);
  }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;
  ~CUDAStreamGuard() { setCurrentCUDAStream(before_); }
  void reset_stream(CUDAStream stream) { setCurrentCUDAStream(now_ = stream); }
  CUDAStream original_stream() const { return before_; }
  CUDAStream current_stream() const { return now_; }
  Device current_device() const { return Device(kCUDA, 0); }

 private:
  CUDAStream before_;
  CUDAStream now_;
};

class OptionalCUDAStreamGuard {
 public:
  OptionalCUDAStreamGuard() = default;
  explicit OptionalCUDAStreamGuard(CUDAStream stream) : guard_(std::in_place, stream) {}
  explicit OptionalCUDAStreamGuard(optional<CUDAStream> stream) {
    if (stream) guard_.emplace(*stream);
  }
  void reset_stream(CUDAStream stream) {
    guard_.reset();
    guard_.emplace(stream);
  }
  void reset() { guard_.reset(); }

 private:
  optional<CUDAStreamGuard> guard_;
};

}  // namespace c10::cuda
