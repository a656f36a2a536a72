// at::cuda::ThrustAllocator: temporary memory for Thrust's algorithms.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/cuda/CUDACachingAllocator.h"

namespace at::cuda {

struct ThrustAllocator {
  using value_type = char;
  char* allocate(std::ptrdiff_t bytes) {
    return static_cast<char*>(
        c10::cuda::CUDACachingAllocator::raw_alloc(static_cast<size_t>(bytes)));
  }
  void deallocate(char* pointer, size_t) { c10::cuda::CUDACachingAllocator::raw_delete(pointer); }
};

}  // namespace at::cuda
