// PyTorch's generator of random numbers. Types only: a candidate that asks for random numbers is
// refused when it does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "ATen/cuda/PhiloxUtils.cuh"
#include "c10/core/Device.h"
#include "c10/util/Optional.h"
#include "cupel/tensor_impl.h"

namespace at {

struct CUDAGeneratorImpl {
  std::mutex mutex_;
  PhiloxCudaState philox_cuda_state(uint64_t) { Refuse(); }
  std::pair<uint64_t, uint64_t> philox_engine_inputs(uint64_t) { Refuse(); }
  uint64_t current_seed() const { Refuse(); }
  uint64_t seed() { Refuse(); }

 private:
  [[noreturn]] static void Refuse() {
    cupel::shim::Refuse("unsupported_api",
                        cupel::shim::Text() << "PyTorch's random numbers (at::CUDAGeneratorImpl)");
  }
};

class Generator {
 public:
  template <class T>
  T* get() const {
    static T generator;
    return &generator;
  }
  std::mutex& mutex() { return get<CUDAGeneratorImpl>()->mutex_; }
  bool defined() const { return true; }
};

template <class T>
T* check_generator(const c10::optional<Generator>&) {
  return Generator().get<T>();
}
template <class T>
T* get_generator_or_default(const c10::optional<Generator>&, const Generator& fallback) {
  return fallback.get<T>();
}

namespace cuda::detail {
inline Generator getDefaultCUDAGenerator(c10::DeviceIndex = -1) { return {}; }
inline Generator createCUDAGenerator(c10::DeviceIndex = -1) { return {}; }
}  // namespace cuda::detail

}  // namespace at
