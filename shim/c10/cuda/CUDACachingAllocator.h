// c10::cuda::CUDACachingAllocator: temporary device memory from the recorder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/cuda/CUDAStream.h"

namespace c10 {

/// Owns device memory.
class DataPtr {
 public:
  DataPtr() = default;
  explicit DataPtr(uint64_t address) : address_(address) {}
  DataPtr(DataPtr&& other) noexcept : address_(std::exchange(other.address_, 0)) {}
  DataPtr& operator=(DataPtr&& other) noexcept {
    std::swap(address_, other.address_);
    return *this;
  }
  ~DataPtr() {
    if (address_ != 0) cupel_rt_free(address_);
  }
  void* get() const { return reinterpret_cast<void*>(address_); }
  void* mutable_get() const { return get(); }
  explicit operator bool() const { return address_ != 0; }
  void clear() { *this = DataPtr(); }

 private:
  uint64_t address_ = 0;
};

}  // namespace c10

namespace c10::cuda::CUDACachingAllocator {

struct CUDAAllocator {
  DataPtr allocate(size_t bytes) { return DataPtr(cupel_rt_alloc(bytes)); }
  void* raw_alloc(size_t bytes) { return reinterpret_cast<void*>(cupel_rt_alloc(bytes)); }
  void* raw_allocate(size_t bytes) { return raw_alloc(bytes); }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t) { return raw_alloc(bytes); }
  void raw_delete(void* pointer) {
    if (pointer != nullptr) cupel_rt_free(reinterpret_cast<uint64_t>(pointer));
  }
  void raw_deallocate(void* pointer) { raw_delete(pointer); }
  void recordStream(const DataPtr&, CUDAStream) {}
  void emptyCache() {}
};
inline CUDAAllocator* get() {
  static CUDAAllocator allocator;
  return &allocator;
}
inline void* raw_alloc(size_t bytes) { return get()->raw_alloc(bytes); }
inline void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) {
  return get()->raw_alloc_with_stream(bytes, stream);
}
inline void raw_delete(void* pointer) { get()->raw_delete(pointer); }
inline void recordStream(const DataPtr& pointer, CUDAStream stream) {
  get()->recordStream(pointer, stream);
}
inline void emptyCache() {}

}  // namespace c10::cuda::CUDACachingAllocator

namespace at::cuda {
inline c10::cuda::CUDACachingAllocator::CUDAAllocator* getCUDADeviceAllocator() {
  return c10::cuda::CUDACachingAllocator::get();
}
}  // namespace at::cuda
