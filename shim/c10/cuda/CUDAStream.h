// c10::cuda::CUDAStream: the recorder's current stream and those of its pool.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/cuda/CUDAFunctions.h"
#include "cupel/abi.h"

namespace c10 {
using StreamId = int64_t;
}

namespace c10::cuda {

class CUDAStream {
 public:
  explicit CUDAStream(cudaStream_t stream) : stream_(stream) {}
  cudaStream_t stream() const { return stream_; }
  operator cudaStream_t() const { return stream_; }
  bool operator==(const CUDAStream& other) const { return stream_ == other.stream_; }
  bool operator!=(const CUDAStream& other) const { return stream_ != other.stream_; }
  /// As in PyTorch no handle, except that of the default stream: code that launches on it is wrong.
  StreamId id() const {
    constexpr StreamId kNoHandle = StreamId{1} << 62;
    const auto handle = static_cast<StreamId>(reinterpret_cast<intptr_t>(stream_));
    return handle == 0 ? 0 : handle ^ kNoHandle;
  }
  DeviceIndex device_index() const { return 0; }
  DeviceType device_type() const { return kCUDA; }
  Device device() const { return Device(kCUDA, 0); }
  bool query() const {
    cudaError_t status = cudaStreamQuery(stream_);
    if (status != cudaSuccess && status != cudaErrorNotReady) C10_CUDA_CHECK(status);
    return status == cudaSuccess;
  }
  void synchronize() const { C10_CUDA_CHECK(cudaStreamSynchronize(stream_)); }
  int priority() const {
    int priority = 0;
    C10_CUDA_CHECK(cudaStreamGetPriority(stream_, &priority));
    return priority;
  }
  const CUDAStream& unwrap() const { return *this; }

 private:
  cudaStream_t stream_;
};

inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) {
  return CUDAStream(reinterpret_cast<cudaStream_t>(cupel_rt_current_stream()));
}
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return CUDAStream(nullptr); }
inline CUDAStream getStreamFromPool(bool high_priority = false, DeviceIndex = -1) {
  return CUDAStream(reinterpret_cast<cudaStream_t>(cupel_rt_pool_stream(high_priority)));
}
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) {
  return CUDAStream(stream);
}
inline void setCurrentCUDAStream(CUDAStream stream) {
  cupel_rt_set_current_stream(reinterpret_cast<uint64_t>(stream.stream()));
}

}  // namespace c10::cuda

namespace at::cuda {
using namespace c10::cuda;  // NOLINT: as in PyTorch
}  // namespace at::cuda
