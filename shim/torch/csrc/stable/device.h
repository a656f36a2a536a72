// torch::stable::Device: a c10::Device whose index has 32 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/Device.h"
#include "cupel/headeronly.h"

namespace torch::stable {

using DeviceType = c10::DeviceType;
using DeviceIndex = int32_t;

class Device {
 public:
  Device(DeviceType type, DeviceIndex index = -1)
      : device_(type, static_cast<c10::DeviceIndex>(index)) {}
#ifndef CUPEL_LEAN_STRING
  Device(const std::string& name) : device_(name) {}
#endif
  // The shim's own.
  static Device Of(c10::Device device) { return Device(device.type(), device.index()); }
  c10::Device AsC10() const { return device_; }

  bool operator==(const Device& other) const { return device_ == other.device_; }
  bool operator!=(const Device& other) const { return !(*this == other); }
  void set_index(DeviceIndex index) { device_.set_index(static_cast<c10::DeviceIndex>(index)); }
  DeviceType type() const { return device_.type(); }
  DeviceIndex index() const { return device_.index(); }
  bool has_index() const { return device_.has_index(); }
  bool is_cuda() const { return device_.is_cuda(); }
  bool is_cpu() const { return device_.is_cpu(); }

 private:
  c10::Device device_;
};

}  // namespace torch::stable
