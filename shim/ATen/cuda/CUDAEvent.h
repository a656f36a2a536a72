// at::cuda::CUDAEvent over the runtime's events.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/cuda/CUDAContext.h"

namespace at::cuda {

class CUDAEvent {
 public:
  CUDAEvent() = default;
  explicit CUDAEvent(unsigned flags) : flags_(flags) {}
  CUDAEvent(const CUDAEvent&) = delete;
  CUDAEvent& operator=(const CUDAEvent&) = delete;
  ~CUDAEvent() {
    if (event_) (void)cudaEventDestroy(event_);
  }
  operator cudaEvent_t() const { return event_; }
  cudaEvent_t event() const { return event_; }
  bool isCreated() const { return event_ != nullptr; }
  bool query() const { return !event_ || cudaEventQuery(event_) == cudaSuccess; }
  void record() { record(getCurrentCUDAStream()); }
  void record(const CUDAStream& stream) {
    if (!event_) C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags_));
    C10_CUDA_CHECK(cudaEventRecord(event_, stream));
  }
  void recordOnce(const CUDAStream& stream) {
    if (!event_) record(stream);
  }
  void block(const CUDAStream& stream) {
    if (event_) C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0));
  }
  void synchronize() const {
    if (event_) C10_CUDA_CHECK(cudaEventSynchronize(event_));
  }
  float elapsed_time(const CUDAEvent& other) const {
    float ms = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&ms, event_, other.event_));
    return ms;
  }

 private:
  unsigned flags_ = cudaEventDisableTiming;
  cudaEvent_t event_ = nullptr;
};

}  // namespace at::cuda
