// c10::TensorOptions: the builder of dtype, device and memory format that factories take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/Device.h"
#include "c10/core/MemoryFormat.h"
#include "c10/util/Optional.h"
#include "c10/util/typeid.h"

namespace c10 {

struct TensorOptions {
  TensorOptions() = default;
  TensorOptions(ScalarType dtype) : dtype_(dtype) {}
  TensorOptions(caffe2::TypeMeta dtype) : dtype_(dtype.toScalarType()) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType device) : device_(device) {}
  TensorOptions(Layout layout) : layout_(layout) {}
  TensorOptions(MemoryFormat format) : format_(format) {}
  TensorOptions(const char* device) : device_(Device(device)) {}
#ifndef CUPEL_LEAN_STRING
  TensorOptions(const std::string& device) : device_(Device(device)) {}
#endif

  [[nodiscard]] TensorOptions dtype(optional<ScalarType> dtype) const {
    TensorOptions r = *this;
    r.dtype_ = dtype;
    return r;
  }
  [[nodiscard]] TensorOptions dtype(caffe2::TypeMeta meta) const {
    return dtype(meta.toScalarType());
  }
  template <class T>
  TensorOptions& dtype() {
    dtype_ = CppTypeToScalarType<T>::value;
    return *this;
  }
  [[nodiscard]] TensorOptions device(optional<Device> device) const {
    TensorOptions r = *this;
    r.device_ = device;
    return r;
  }
  template <class... A, class = decltype(Device(std::declval<A>()...))>
  [[nodiscard]] TensorOptions device(A&&... args) const {
    return device(optional<Device>(std::in_place, std::forward<A>(args)...));
  }
  [[nodiscard]] TensorOptions device_index(DeviceIndex index) const {
    return device(Device(DeviceType::CUDA, index));
  }
  [[nodiscard]] TensorOptions layout(optional<Layout> layout) const {
    TensorOptions r = *this;
    r.layout_ = layout;
    return r;
  }
  [[nodiscard]] TensorOptions memory_format(optional<MemoryFormat> format) const {
    TensorOptions r = *this;
    r.format_ = format;
    return r;
  }
  [[nodiscard]] TensorOptions requires_grad(optional<bool>) const { return *this; }
  [[nodiscard]] TensorOptions pinned_memory(optional<bool>) const { return *this; }

  caffe2::TypeMeta dtype() const {
    return caffe2::TypeMeta::fromScalarType(dtype_.value_or(ScalarType::Float));
  }
  Device device() const { return device_.value_or(Device(DeviceType::CPU)); }
  Layout layout() const { return layout_.value_or(Layout::Strided); }
  DeviceIndex device_index() const { return device().index(); }
  bool requires_grad() const { return false; }
  bool pinned_memory() const { return false; }
  bool has_dtype() const { return dtype_.has_value(); }
  bool has_device() const { return device_.has_value(); }
  bool has_layout() const { return layout_.has_value(); }
  bool has_memory_format() const { return format_.has_value(); }
  optional<caffe2::TypeMeta> dtype_opt() const {
    return has_dtype() ? optional<caffe2::TypeMeta>(dtype()) : nullopt;
  }
  optional<Device> device_opt() const { return device_; }
  optional<Layout> layout_opt() const { return layout_; }
  optional<MemoryFormat> memory_format_opt() const { return format_; }
  TensorOptions merge_in(TensorOptions over) const {
    TensorOptions r = *this;
    if (over.dtype_) r.dtype_ = over.dtype_;
    if (over.device_) r.device_ = over.device_;
    if (over.layout_) r.layout_ = over.layout_;
    if (over.format_) r.format_ = over.format_;
    return r;
  }

 private:
  optional<ScalarType> dtype_;
  optional<Device> device_;
  optional<Layout> layout_;
  optional<MemoryFormat> format_;
};

/// What is not set is marked as a default, as PyTorch does.
template <class C>
std::basic_ostream<C>& operator<<(std::basic_ostream<C>& out, const TensorOptions& options) {
  const auto show = [&](const char* label, const auto& value, bool is_set) {
    out << label << value << (is_set ? "" : " (default)");
  };
  show("TensorOptions(dtype=", options.dtype(), options.has_dtype());
  show(", device=", options.device(), options.has_device());
  show(", layout=", options.layout(), options.has_layout());
  show(", requires_grad=", "false", false);
  show(", pinned_memory=", "false", false);
  out << ", memory_format=";
  options.has_memory_format() ? out << *options.memory_format_opt() : out << "(nullopt)";
  return out << ")";
}

inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions dtype(caffe2::TypeMeta type) { return TensorOptions(type); }
template <class T>
TensorOptions dtype() {
  return TensorOptions(CppTypeToScalarType<T>::value);
}
inline TensorOptions device(Device d) { return TensorOptions(d); }
inline TensorOptions device_index(DeviceIndex i) { return TensorOptions().device_index(i); }
inline TensorOptions layout(Layout l) { return TensorOptions(l); }
inline TensorOptions memory_format(MemoryFormat f) { return TensorOptions(f); }
inline TensorOptions requires_grad(bool = true) { return TensorOptions(); }

}  // namespace c10
