// Names of PyTorch 1.x's THC that old extensions use. There is no THCState.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/ceil_div.h"
#include "ATen/cuda/CUDAContext.h"
#include "ATen/cuda/Exceptions.h"
#include "c10/cuda/CUDACachingAllocator.h"

struct THCState;
#define THCudaCheck(expr) C10_CUDA_CHECK(expr)
template <class T>
CUPEL_HOST_DEVICE T THCCeilDiv(T a, T b) {
  return at::ceil_div(a, b);
}
inline void* THCudaMalloc(THCState*, size_t bytes) {
  return c10::cuda::CUDACachingAllocator::raw_alloc(bytes);
}
inline void THCudaFree(THCState*, void* pointer) {
  c10::cuda::CUDACachingAllocator::raw_delete(pointer);
}
