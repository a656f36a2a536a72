// Checks of CUDA calls and launches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/Exception.h"

namespace c10 {
class CUDAError : public Error {
  using Error::Error;
};
}  // namespace c10

namespace cupel::shim {
// Not in the compiled runtime, so that only candidates that check errors need cudaGetErrorString.
inline void CheckCuda(cudaError_t status) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  Throw<c10::CUDAError>(Text() << "CUDA error: " << cudaGetErrorString(status));
}
}  // namespace cupel::shim

#define C10_CUDA_CHECK(expr) ::cupel::shim::CheckCuda(expr)
#define C10_CUDA_CHECK_WARN(expr)                                     \
  do {                                                                \
    const cudaError_t cupel_status = (expr);                          \
    if (cupel_status != cudaSuccess)                                  \
      TORCH_WARN("CUDA warning: ", cudaGetErrorString(cupel_status)); \
  } while (0)
#define C10_CUDA_IGNORE_ERROR(expr)                      \
  do {                                                   \
    if ((expr) != cudaSuccess) (void)cudaGetLastError(); \
  } while (0)
#define C10_CUDA_CLEAR_ERROR() (void)cudaGetLastError()
#define C10_CUDA_ERROR_HANDLED(expr) (expr)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define TORCH_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_KERNEL_LAUNCH_CHECK()
