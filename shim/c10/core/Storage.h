// c10::Storage as Tensor::storage() returns it: a read-only address and size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/Device.h"
#include "cupel/abi.h"

namespace c10 {

class Storage {
 public:
  explicit Storage(const CupelTensor& tensor) : tensor_(&tensor) {}
  void* mutable_data() const { return reinterpret_cast<void*>(tensor_->storage); }
  const void* data() const { return mutable_data(); }
  size_t nbytes() const { return tensor_->storage_bytes; }
  DeviceType device_type() const { return tensor_->device == CUPEL_CUDA ? kCUDA : kCPU; }
  bool is_alias_of(const Storage& other) const { return data() == other.data(); }

 private:
  const CupelTensor* tensor_;
};

}  // namespace c10
