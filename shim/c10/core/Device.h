// c10::Device. A recording has one GPU, so the only CUDA index is 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/DeviceType.h"

namespace c10 {

using DeviceIndex = int8_t;

struct Device final {
  using Type = DeviceType;
  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
#ifndef CUPEL_LEAN_STRING
  Device(const std::string& name) : Device(Parse(name.c_str())) {}
  std::string str() const;
#endif
  Device(const char* name) : Device(Parse(name)) {}

  bool operator==(const Device& other) const {
    return type_ == other.type_ && index_ == other.index_;
  }
  bool operator!=(const Device& other) const { return !(*this == other); }
  void set_index(DeviceIndex index) { index_ = index; }
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return index_ != -1; }
  bool is_cuda() const { return type_ == DeviceType::CUDA; }
  bool is_cpu() const { return type_ == DeviceType::CPU; }
  bool is_meta() const { return false; }
  bool is_hip() const { return false; }
  bool is_xpu() const { return false; }
  bool is_mps() const { return false; }

 private:
  static Device Parse(const char* name);
  DeviceType type_;
  DeviceIndex index_;
};

inline void AppendText(cupel::shim::Text& text, const Device& device) {
  text << DeviceTypeText(device.type());
  if (device.has_index()) text << ':' << static_cast<int>(device.index());
}
template <class C>
std::basic_ostream<C>& operator<<(std::basic_ostream<C>& out, const Device& device) {
  return out << cupel::shim::Join(device).c_str();
}

#if CUPEL_BODIES
CUPEL_INLINE Device Device::Parse(const char* name) {
  const char* colon = std::strchr(name, ':');
  size_t length = colon ? static_cast<size_t>(colon - name) : std::strlen(name);
  int index = colon ? std::atoi(colon + 1) : -1;
  if (length == 4 && std::memcmp(name, "cuda", 4) == 0)
    return Device(DeviceType::CUDA, static_cast<DeviceIndex>(index));
  if (length == 3 && std::memcmp(name, "cpu", 3) == 0)
    return Device(DeviceType::CPU, static_cast<DeviceIndex>(index));
  TORCH_CHECK(false, "Invalid device string: '", name, "'");
}
#ifndef CUPEL_LEAN_STRING
CUPEL_INLINE std::string Device::str() const { return cupel::shim::Join(*this).c_str(); }
#endif
#endif

}  // namespace c10
