// Device properties and the cuBLAS handle of the current device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/cuda/CUDAStream.h"

#ifndef CUPEL_LEAN_CUBLAS
#include <cublas_v2.h>
#else
struct cublasContext;
typedef cublasContext* cublasHandle_t;
#endif

namespace at::cuda {

inline int64_t getNumGPUs() { return 1; }
inline bool is_available() { return true; }
inline int warp_size() { return 32; }
inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device) {
  static cudaDeviceProp properties;
  static bool known = false;
  if (!known) C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device < 0 ? 0 : device));
  known = true;
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }

#ifndef CUPEL_LEAN_CUBLAS
/// One handle for the process, set to the current stream, as PyTorch's pool gives it.
inline cublasHandle_t getCurrentCUDABlasHandle() {
  static cublasHandle_t handle = nullptr;
  if (!handle) {
    cublasStatus_t status = cublasCreate(&handle);
    TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, "CUDA error: ", cublasGetStatusString(status),
                " when calling `cublasCreate(handle)`");
  }
  cublasSetStream(handle, getCurrentCUDAStream());
  return handle;
}
#endif

}  // namespace at::cuda
