// The state of PyTorch's generator of random numbers as a kernel's argument. See
// CUDAGeneratorImpl.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/prelude.h"

namespace at {

struct PhiloxCudaState {
  PhiloxCudaState() = default;
  PhiloxCudaState(uint64_t seed, uint64_t offset) : seed_{seed}, offset_{offset} {}
  union Payload {
    uint64_t val;
    int64_t* ptr;
  };
  Payload seed_{};
  Payload offset_{};
  uint32_t offset_intragraph_ = 0;
  bool captured_ = false;
};

namespace cuda::philox {
CUPEL_HOST_DEVICE inline std::tuple<uint64_t, uint64_t> unpack(PhiloxCudaState state) {
  return {state.seed_.val, state.offset_.val};
}
}  // namespace cuda::philox

}  // namespace at
