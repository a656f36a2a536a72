// Kinds of device. Kernels use CPU and CUDA; the others exist so that comparisons compile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/Exception.h"

namespace c10 {

enum class DeviceType : int8_t {
  CPU = 0,
  CUDA = 1,
  HIP = 6,
  XLA = 9,
  XPU = 12,
  MPS = 13,
  Meta = 14,
  HPU = 15,
  PrivateUse1 = 20,
  COMPILE_TIME_MAX_DEVICE_TYPES = 21
};

constexpr DeviceType kCPU = DeviceType::CPU;
constexpr DeviceType kCUDA = DeviceType::CUDA;
constexpr DeviceType kHIP = DeviceType::HIP;
constexpr DeviceType kXLA = DeviceType::XLA;
constexpr DeviceType kXPU = DeviceType::XPU;
constexpr DeviceType kMPS = DeviceType::MPS;
constexpr DeviceType kMeta = DeviceType::Meta;

inline const char* DeviceTypeText(DeviceType type) {
  return type == kCUDA ? "cuda" : type == kCPU ? "cpu" : type == kMeta ? "meta" : "other";
}
#ifndef CUPEL_LEAN_STRING
inline std::string DeviceTypeName(DeviceType type, bool lower_case = false) {
  if (lower_case) return DeviceTypeText(type);
  return type == kCUDA ? "CUDA" : type == kCPU ? "CPU" : type == kMeta ? "META" : "OTHER";
}
#endif
inline void AppendText(cupel::shim::Text& text, DeviceType type) { text << DeviceTypeText(type); }
template <class C>
std::basic_ostream<C>& operator<<(std::basic_ostream<C>& out, DeviceType type) {
  return out << DeviceTypeText(type);
}

}  // namespace c10
