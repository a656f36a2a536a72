// The cuBLAS handle; GEMM wrappers of at::cuda::blas are framework mathematics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/cuda/CUDAContext.h"

namespace at::cuda::blas {}
