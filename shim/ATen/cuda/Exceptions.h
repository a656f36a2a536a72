// AT_CUDA_CHECK and the same check for cuBLAS.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/cuda/CUDAException.h"

#define AT_CUDA_CHECK(expr) C10_CUDA_CHECK(expr)
#define TORCH_CUDABLAS_CHECK(expr)                                                                 \
  do {                                                                                             \
    auto cupel_status = (expr);                                                                    \
    TORCH_CHECK(static_cast<int>(cupel_status) == 0,                                               \
                "CUDA error: ", cublasGetStatusString(cupel_status), " when calling `" #expr "`"); \
  } while (0)
#define AT_CUDA_DRIVER_CHECK(expr)                                      \
  do {                                                                  \
    auto cupel_status = (expr);                                         \
    TORCH_CHECK(static_cast<int>(cupel_status) == 0,                    \
                "CUDA driver error: ", static_cast<int>(cupel_status)); \
  } while (0)
